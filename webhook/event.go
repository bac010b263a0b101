package webhook

import (
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// event has the parts of an event that name its repository.
type event struct {
	Repository repository // of all forges
	Project    repository // of GitLab
}

// repository has the URLs of a repository, in the fields of all forges.
type repository struct {
	CloneURL   string `json:"clone_url"`    // GitHub, Gitea
	SSHURL     string `json:"ssh_url"`      // GitHub, Gitea
	HTMLURL    string `json:"html_url"`     // GitHub, Gitea
	GitHTTPURL string `json:"git_http_url"` // GitLab
	GitSSHURL  string `json:"git_ssh_url"`  // GitLab
	Links      struct {
		HTML  link   // Bitbucket Cloud, which names no URL to clone from
		Clone []link // Bitbucket Data Center
	}
}

type link struct{ Href string }

const maxNames = 8 // repositories of one event; forges send one or two spellings

// namesIn returns the names of the repositories of an event, each once. Fields with values of another type count as missing, because
// forges have many kinds of events.
func namesIn(body []byte) (all []string, err error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, err
	}
	for _, r := range []repository{e.Repository, e.Project} {
		urls := []string{r.CloneURL, r.SSHURL, r.HTMLURL, r.GitHTTPURL, r.GitSSHURL, r.Links.HTML.Href}
		for _, l := range r.Links.Clone {
			urls = append(urls, l.Href)
		}
		for _, u := range urls {
			if name := Name(u); name != "" && !slices.Contains(all, name) && len(all) < maxNames {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// scpForm matches the address of a repository as scp has it: git@example.com:acme/vpc.git.
var scpForm = regexp.MustCompile(`^(?:[^@/:]+@)?([^@/:]+):/?([^/].*)$`)

const maxURL = 2048 // bytes

// Name returns the host and the path of a repository in one spelling for https and SSH: without the scheme, the user, the port and .git,
// and in lower case, as forges compare names. It returns an empty string for text that is not the URL of a repository.
func Name(repository string) string {
	host, path := "", ""
	if m := scpForm.FindStringSubmatch(repository); len(repository) > maxURL {
		return ""
	} else if m != nil {
		host, path = m[1], m[2]
	} else if u, err := url.Parse(repository); err == nil && u.Scheme != "" {
		host, path = u.Hostname(), u.Path
	}
	path = strings.TrimSuffix(strings.ToLower(strings.Trim(path, "/")), ".git")
	if host == "" || path == "" {
		return ""
	}
	return strings.ToLower(host) + "/" + path
}
