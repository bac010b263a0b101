package suggest

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// call is a call of a git repository by the tag of a version.
type call struct {
	tfconfig.Pos
	old       string // the source, without secrets
	hasSecret bool   // the source has a password, a token or a key
	repository
	path    string // the directory in the repository
	dir     string // the part of path that has tags of its own; empty if the tags are those of the whole repository
	tags    string // the pattern of the tag; empty for the default
	version string
}

// moduleKey identifies a called module.
type moduleKey struct{ id, dir, tags string }

func (c call) module() moduleKey { return moduleKey{c.id, c.dir, c.tags} }

// subdir returns the part of path that the new source must have.
func (c call) subdir() string { return strings.TrimPrefix(strings.TrimPrefix(c.path, c.dir), "/") }

// parse reads a source that is neither local nor of a registry. The error is the reason why the call of a git repository names no version.
func parse(s tfconfig.Source) (c call, isGit bool, err error) {
	c.Pos = s.Pos
	if s.Dynamic != "" {
		return c, false, errors.New("its source " + s.Dynamic)
	}
	l, err := modproxy.ParseLocation(s.Source, &url.URL{})
	if err != nil {
		if gitPattern.MatchString(s.Source) {
			return c, true, err
		}
		return c, false, nil
	}
	if l.Getter != "git" {
		return c, false, nil
	}
	u, err := url.Parse(l.URL)
	if err != nil {
		return c, true, errors.New("its source is not a URL")
	}
	if c.repository, c.hasSecret, err = parseRepository(u); err != nil {
		return c, true, err
	}
	query := u.Query()
	c.path, c.hasSecret = l.Subdir, c.hasSecret || query.Has("sshkey")
	c.old = s.Source
	if c.hasSecret || len(query) > 1 {
		c.old = strings.TrimSuffix(tfconfig.RedactSource(s.Source)+"?ref="+query.Get("ref"), "?ref=")
	}
	tag, err := tagOf(query.Get("ref"))
	if err != nil {
		return c, true, err
	}
	var before string
	before, c.version, err = splitTag(tag)
	if err != nil {
		return c, true, err
	}
	if before != "" && before != "v" {
		c.tags, c.dir = before+versionPlaceholder, taggedDir(c.path, tagName(before))
	}
	return c, true, nil
}

var (
	// gitPattern matches sources that are meant to be git repositories, whether they are valid or not.
	gitPattern    = regexp.MustCompile(`^(?i:git::|git@|ssh://|(?:github\.com|gitlab\.com|bitbucket\.org)/)`)
	commitPattern = regexp.MustCompile(`^(?:[0-9a-f]{7,40}|[0-9a-f]{64})$`)
	// partPattern matches versions with one or two numbers.
	partPattern = regexp.MustCompile(`^(?:.*[^0-9.])?[0-9]+(?:\.[0-9]+)?$`)
)

// tagOf returns the name of the tag that a ref may be.
func tagOf(ref string) (string, error) {
	name, isFull := strings.CutPrefix(ref, "refs/")
	if tag, ok := strings.CutPrefix(name, "tags/"); ok {
		return tag, nil
	}
	switch {
	case ref == "":
		return "", errors.New("it has no ref, so it is the newest commit of a branch")
	case isFull, strings.HasPrefix(name, "heads/"):
		return "", fmt.Errorf("%.100q is a branch", ref)
	case commitPattern.MatchString(ref):
		return "", fmt.Errorf("%.100q is a commit", ref)
	}
	return ref, nil
}

// splitTag splits a tag before its version, such as "vpc/v" and "1.2.3".
func splitTag(tag string) (before, version string, err error) {
	for i := range len(tag) {
		if i > 0 && (tag[i-1] == '.' || '0' <= tag[i-1] && tag[i-1] <= '9') { // within a number
			continue
		}
		if v, err := modproxy.CanonicalVersion(tag[i:]); err == nil && v == tag[i:] {
			return tag[:i], v, nil
		}
	}
	if partPattern.MatchString(tag) {
		return "", "", fmt.Errorf("%.100q has no full version, which is three numbers", tag)
	}
	return "", "", fmt.Errorf("%.100q is a branch, or a tag that is not a version", tag)
}

// tagName returns the name of a module in the beginning of its tags: vpc for vpc/v, vpc-v and vpc@.
func tagName(before string) string {
	const marks = "/-_.@+"
	if rest, ok := strings.CutSuffix(before, "v"); ok && rest != strings.TrimRight(rest, marks) {
		before = rest
	}
	return strings.TrimRight(before, marks)
}

// taggedDir returns the part of a path that has the tags with the given name: aws/vpc for aws/vpc/modules/x and any of the names vpc,
// aws/vpc and aws-vpc. It is empty if the name is not in the path.
func taggedDir(path, name string) string {
	dashed := func(s string) string { return "-" + strings.ReplaceAll(s, "/", "-") }
	for i := 1; i <= len(path) && name != ""; i++ {
		if (i == len(path) || path[i] == '/') && strings.HasSuffix(dashed(path[:i]), dashed(name)) {
			return path[:i]
		}
	}
	return ""
}
