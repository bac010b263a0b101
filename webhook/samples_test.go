package webhook

// samples are events in the forms that the pages in the package comment describe, for a repository acme/terraform-aws-vpc.
var samples = map[string]struct {
	event string
	names []string
}{
	"GitHub push": {
		`{"ref": "refs/tags/v1.2.0", "before": "0000000000000000000000000000000000000000", "created": true,
		"repository": {"id": 1, "name": "terraform-aws-vpc", "full_name": "Acme/terraform-aws-vpc", "private": true,
			"owner": {"name": "Acme", "login": "Acme"}, "html_url": "https://github.com/Acme/terraform-aws-vpc",
			"url": "https://api.github.com/repos/Acme/terraform-aws-vpc", "git_url": "git://github.com/Acme/terraform-aws-vpc.git",
			"ssh_url": "git@github.com:Acme/terraform-aws-vpc.git", "clone_url": "https://github.com/Acme/terraform-aws-vpc.git"},
		"commits": [], "head_commit": {"id": "1"}}`,
		[]string{"github.com/acme/terraform-aws-vpc"},
	},
	"GitHub ping": {
		`{"zen": "Keep it logically awesome.", "hook_id": 1, "hook": {"type": "Repository", "events": ["push"]},
		"repository": {"clone_url": "https://github.com/Acme/terraform-aws-vpc.git"}}`,
		[]string{"github.com/acme/terraform-aws-vpc"},
	},
	"GitHub ping of an organization": {`{"zen": "Design for failure.", "hook_id": 1, "organization": {"login": "Acme"}}`, nil},
	"GitHub project":                 {`{"action": "created", "project": "a text", "repository": {"name": "x", "ssh_url": 1}}`, nil},
	"GitLab tag": {
		`{"object_kind": "tag_push", "event_name": "tag_push", "ref": "refs/tags/v1.2.0", "project_id": 1,
		"project": {"id": 1, "web_url": "https://gitlab.example.com/acme/net/terraform-aws-vpc",
			"git_ssh_url": "ssh://git@gitlab.example.com:2222/acme/net/terraform-aws-vpc.git",
			"git_http_url": "https://gitlab.example.com/acme/net/terraform-aws-vpc.git"},
		"commits": [], "total_commits_count": 0,
		"repository": {"name": "vpc", "url": "ssh://git@gitlab.example.com:2222/acme/net/terraform-aws-vpc.git",
			"git_http_url": "https://gitlab.example.com/acme/net/terraform-aws-vpc.git"}}`,
		[]string{"gitlab.example.com/acme/net/terraform-aws-vpc"},
	},
	"Gitea push": {
		`{"ref": "refs/tags/v1.2.0", "commits": [{"id": "1", "message": "x"}],
		"repository": {"id": 1, "full_name": "acme/terraform-aws-vpc", "html_url": "https://git.example.com/forge/acme/terraform-aws-vpc",
			"ssh_url": "git@git.example.com:acme/terraform-aws-vpc.git",
			"clone_url": "https://git.example.com/forge/acme/terraform-aws-vpc.git"}, "sender": {"id": 1}}`,
		[]string{"git.example.com/forge/acme/terraform-aws-vpc", "git.example.com/acme/terraform-aws-vpc"},
	},
	"Bitbucket Cloud push": {
		`{"push": {"changes": [{"new": {"type": "tag", "name": "v1.2.0"}, "old": null, "created": true}]},
		"repository": {"type": "repository", "full_name": "acme/terraform-aws-vpc", "links": {
			"self": {"href": "https://api.bitbucket.org/2.0/repositories/acme/terraform-aws-vpc"},
			"html": {"href": "https://bitbucket.org/acme/terraform-aws-vpc"}, "avatar": {"href": "https://bytebucket.org/ravatar/1"}}}}`,
		[]string{"bitbucket.org/acme/terraform-aws-vpc"},
	},
	"Bitbucket Data Center push": {
		`{"eventKey": "repo:refs_changed", "repository": {"slug": "terraform-aws-vpc", "project": {"key": "ACME",
			"links": {"self": [{"href": "https://git.example.com/projects/ACME"}]}}, "links": {
			"clone": [{"href": "ssh://git@git.example.com:7999/acme/terraform-aws-vpc.git", "name": "ssh"},
				{"href": "https://git.example.com/scm/acme/terraform-aws-vpc.git", "name": "http"}],
			"self": [{"href": "https://git.example.com/projects/ACME/repos/terraform-aws-vpc/browse"}]}},
		"changes": [{"ref": {"id": "refs/tags/v1.2.0", "type": "TAG"}, "type": "ADD"}]}`,
		[]string{"git.example.com/acme/terraform-aws-vpc", "git.example.com/scm/acme/terraform-aws-vpc"},
	},
	"Bitbucket Data Center ping": {`{"test": true}`, nil},
}
