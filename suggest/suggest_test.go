package suggest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/suggest"
	"github.com/modproxy/modproxy/tfconfig"
)

const host = "modules.example.com"

// of returns what is suggested for sources.
func of(t testing.TB, sources ...string) suggest.Suggestion {
	t.Helper()
	var calls suggest.Calls
	for i, source := range sources {
		if err := calls.Add(tfconfig.Source{Pos: tfconfig.Pos{File: "main.tf", Line: i + 1}, Source: source}); err != nil {
			t.Fatal(err)
		}
	}
	return calls.Suggest(host)
}

// text returns a suggestion in lines.
func text(s suggest.Suggestion) string {
	var b strings.Builder
	for _, m := range s.Mappings {
		fmt.Fprintln(&b, strings.Join(strings.Fields(fmt.Sprintf("%s = %s %s %s (%d)", m.Address, m.Source, m.Path, m.Tags, m.Modules)), " "))
		for _, r := range m.Remarks {
			fmt.Fprintln(&b, "#", r)
		}
	}
	for _, c := range s.Changes {
		fmt.Fprintf(&b, "%d: %s %s\n", c.Line, c.Source, c.Version)
	}
	for _, r := range s.Rest {
		fmt.Fprintf(&b, "%d: %s: %s\n", r.Line, r.Old, r.Reason)
	}
	return b.String()
}

// cases are sources, and what is suggested for them.
var cases = map[string]struct {
	sources []string
	want    string
}{
	"one repository": {[]string{
		"git::https://git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://git.example.com/acme/terraform-aws-vpc.git//modules/endpoints?ref=1.3.0-rc.1",
	}, `
		acme/vpc/aws = git::https://git.example.com/acme/terraform-aws-vpc.git (1)
		1: modules.example.com/acme/vpc/aws 1.2.3
		2: modules.example.com/acme/vpc/aws//modules/endpoints 1.3.0-rc.1`},
	"a convention": {[]string{
		"git::https://git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://git.example.com/acme/terraform-google-log-sink.git?ref=v1.2.3",
		"git::https://git.example.com/acme/terraform-aws-EKS.git?ref=v1.2.3",
		"git::https://git.example.com/acme/infra.git?ref=v1.2.3",
	}, `
		acme/eks/aws = git::https://git.example.com/acme/terraform-aws-EKS.git (1)
		acme/infra/any = git::https://git.example.com/acme/infra.git (1)
		acme/{name}/{system} = git::https://git.example.com/acme/terraform-{system}-{name}.git (2)
		1: modules.example.com/acme/vpc/aws 1.2.3
		2: modules.example.com/acme/log-sink/google 1.2.3
		3: modules.example.com/acme/eks/aws 1.2.3
		4: modules.example.com/acme/infra/any 1.2.3`},
	"other conventions": {[]string{
		"git::https://git.example.com/acme/tf-module-vpc?ref=v1.2.3",
		"git::https://git.example.com/acme/tf-module-log-sink?ref=v1.2.3",
		"git::https://git.example.com/b/terraform-vpc?ref=release-1.2.3",
		"git::https://git.example.com/b/terraform-eks?ref=release-2.0.0",
		"git::https://git.example.com/c/vpc?ref=v1.2.3",
		"git::https://git.example.com/c/eks?ref=v1.2.3",
	}, `
		c/eks/any = git::https://git.example.com/c/eks (1)
		c/vpc/any = git::https://git.example.com/c/vpc (1)
		acme/{name}/any = git::https://git.example.com/acme/tf-module-{name} (2)
		b/{name}/any = git::https://git.example.com/b/terraform-{name} release-{version} (2)
		1: modules.example.com/acme/vpc/any 1.2.3
		2: modules.example.com/acme/log-sink/any 1.2.3
		3: modules.example.com/b/vpc/any 1.2.3
		4: modules.example.com/b/eks/any 2.0.0
		5: modules.example.com/c/vpc/any 1.2.3
		6: modules.example.com/c/eks/any 1.2.3`},
	"a convention that another one would hide": {[]string{
		"git::https://git.example.com/acme/terraform-aws-vpc?ref=v1.2.3",
		"git::https://git.example.com/acme/terraform-aws-eks?ref=v1.2.3",
		"git::https://git.example.com/acme/terraform-google-eks?ref=v1.2.3",
		"git::https://git.example.com/acme/tf-module-vpc?ref=v1.2.3",
		"git::https://git.example.com/acme/tf-module-eks?ref=v1.2.3",
	}, `
		acme/eks/any = git::https://git.example.com/acme/tf-module-eks (1)
		acme/vpc/any = git::https://git.example.com/acme/tf-module-vpc (1)
		acme/{name}/{system} = git::https://git.example.com/acme/terraform-{system}-{name} (3)
		1: modules.example.com/acme/vpc/aws 1.2.3
		2: modules.example.com/acme/eks/aws 1.2.3
		3: modules.example.com/acme/eks/google 1.2.3
		4: modules.example.com/acme/vpc/any 1.2.3
		5: modules.example.com/acme/eks/any 1.2.3`},
	"a repository with tags for each module": {[]string{
		"git::https://git.example.com/infra/modules.git//vpc?ref=vpc/v1.2.3",
		"git::https://git.example.com/infra/modules.git//vpc/modules/endpoints?ref=vpc/v1.2.4",
		"git::https://git.example.com/infra/modules.git//eks?ref=refs/tags/eks/v2.0.0",
		"git::https://git.example.com/tree/modules.git//src/aws/vpc?ref=aws/vpc/1.2.3",
		"git::https://git.example.com/tree/modules.git//src/azurerm/net?ref=azurerm/net/1.2.3",
		"git::https://git.example.com/flat/modules.git//modules/terraform-aws-vpc?ref=terraform-aws-vpc-v1.2.3",
		"git::https://git.example.com/flat/modules.git//modules/terraform-aws-eks?ref=terraform-aws-eks-v1.2.3",
		"git::https://git.example.com/dash/modules.git//aws/vpc?ref=aws-vpc@1.2.3",
		"git::https://git.example.com/name/modules.git//aws/vpc?ref=vpc-1.2.3",
		"git::https://git.example.com/name/modules.git//aws/eks?ref=eks-1.2.3",
		"git::https://git.example.com/whole/modules.git//aws/vpc?ref=v1.2.3",
		"git::https://git.example.com/whole/modules.git//aws/eks?ref=release/v1.2.3",
	}, `
		dash/vpc/aws = git::https://git.example.com/dash/modules.git aws/vpc aws-vpc@{version} (1)
		whole/modules-2/any = git::https://git.example.com/whole/modules.git release/v{version} (1)
		# whole/modules/any is the address of git::https://git.example.com/whole/modules.git
		whole/modules/any = git::https://git.example.com/whole/modules.git (1)
		flat/{name}/{system} = git::https://git.example.com/flat/modules.git modules/terraform-{system}-{name} terraform-{system}-{name}-v{version} (2)
		infra/{name}/any = git::https://git.example.com/infra/modules.git {name} {name}/v{version} (2)
		name/{name}/aws = git::https://git.example.com/name/modules.git aws/{name} {name}-{version} (2)
		tree/{name}/{system} = git::https://git.example.com/tree/modules.git src/{system}/{name} {system}/{name}/{version} (2)
		1: modules.example.com/infra/vpc/any 1.2.3
		2: modules.example.com/infra/vpc/any//modules/endpoints 1.2.4
		3: modules.example.com/infra/eks/any 2.0.0
		4: modules.example.com/tree/vpc/aws 1.2.3
		5: modules.example.com/tree/net/azurerm 1.2.3
		6: modules.example.com/flat/vpc/aws 1.2.3
		7: modules.example.com/flat/eks/aws 1.2.3
		8: modules.example.com/dash/vpc/aws 1.2.3
		9: modules.example.com/name/vpc/aws 1.2.3
		10: modules.example.com/name/eks/aws 1.2.3
		11: modules.example.com/whole/modules/any//aws/vpc 1.2.3
		12: modules.example.com/whole/modules-2/any//aws/eks 1.2.3`},
	"the forms of sources": {[]string{
		"git::https://git.example.com/acme/terraform-aws-vpc?ref=v1.2.3&depth=1",
		"git::ssh://git@git.example.com:2222/acme/terraform-aws-vpc.git?ref=v1.2.4",
		"git@git.example.com:acme/terraform-aws-vpc.git//modules/x?ref=v1.2.5",
		"git::git@git.example.com:acme/terraform-aws-vpc.git?ref=v1.2.6",
		"github.com/Acme/terraform-aws-vpc//modules/x?ref=v1.2.7",
		"git::https://dev.azure.com/acme/My%20Project/_git/terraform-azurerm-net?ref=v1.2.3",
		"git::https://GitLab.example.com/acme/platform/net/terraform-aws-vpc.git/?ref=v1.2.3",
		"git::https://git.example.com:443/terraform-aws-vpc.git?ref=v1.2.3",
		"./local", "other/vpc/aws", "https://example.com/x.zip", "hg::https://example.com/x", "s3::https://s3.example.com/x.zip", "", "modules/vpc",
	}, `
		acme-my-project/net/azurerm = git::https://dev.azure.com/acme/My%20Project/_git/terraform-azurerm-net (1)
		acme-platform-net/vpc/aws = git::https://gitlab.example.com/acme/platform/net/terraform-aws-vpc.git (1)
		acme/vpc-2/aws = git::https://github.com/Acme/terraform-aws-vpc.git (1)
		# acme/vpc/aws is the address of git::https://git.example.com/acme/terraform-aws-vpc
		acme/vpc/aws = git::https://git.example.com/acme/terraform-aws-vpc (1)
		# it is also called as git::ssh://git@git.example.com/acme/terraform-aws-vpc.git
		# it is also called as git::ssh://git@git.example.com:2222/acme/terraform-aws-vpc.git
		git-example-com/vpc/aws = git::https://git.example.com:443/terraform-aws-vpc.git (1)
		1: modules.example.com/acme/vpc/aws 1.2.3
		2: modules.example.com/acme/vpc/aws 1.2.4
		3: modules.example.com/acme/vpc/aws//modules/x 1.2.5
		4: modules.example.com/acme/vpc/aws 1.2.6
		5: modules.example.com/acme/vpc-2/aws//modules/x 1.2.7
		6: modules.example.com/acme-my-project/net/azurerm 1.2.3
		7: modules.example.com/acme-platform-net/vpc/aws 1.2.3
		8: modules.example.com/git-example-com/vpc/aws 1.2.3`},
	"refs that are no versions": {[]string{
		"git::https://git.example.com/acme/x.git",
		"git::https://git.example.com/acme/x.git?ref=main",
		"git::https://git.example.com/acme/x.git?ref=refs/heads/1.2.3",
		"git::https://git.example.com/acme/x.git?ref=v1",
		"git::https://git.example.com/acme/x.git?ref=x/v1.2",
		"git::https://git.example.com/acme/x.git?ref=0123456789abcdef0123456789abcdef01234567",
		"git::https://git.example.com/acme/x.git?ref=v01.2.3",
		"git::https://git.example.com/acme/x.git//modules/*?ref=v1.2.3",
		"git::https://git.example.com/acme/x.git?ref={name}1.2.3",
		"git::https://git.example.com/acme/x.git?ref=a..b/v1.2.3",
		"git::file:///srv/x.git?ref=v1.2.3",
		"git::/srv/x.git?ref=v1.2.3",
		"git::https://git.example.com/?ref=v1.2.3",
	}, `
		1: git::https://git.example.com/acme/x.git: it has no ref, so it is the newest commit of a branch
		2: git::https://git.example.com/acme/x.git?ref=main: "main" is a branch, or a tag that is not a version
		3: git::https://git.example.com/acme/x.git?ref=refs/heads/1.2.3: "refs/heads/1.2.3" is a branch
		4: git::https://git.example.com/acme/x.git?ref=v1: "v1" has no full version, which is three numbers
		5: git::https://git.example.com/acme/x.git?ref=x/v1.2: "x/v1.2" has no full version, which is three numbers
		6: git::https://git.example.com/acme/x.git?ref=0123456789abcdef0123456789abcdef01234567: "0123456789abcdef0123456789abcdef01234567" is a commit
		7: git::https://git.example.com/acme/x.git?ref=v01.2.3: "v01.2.3" is a branch, or a tag that is not a version
		8: git::https://git.example.com/acme/x.git//modules/*?ref=v1.2.3: the directory "modules/*" cannot follow the address of a module
		9: git::https://git.example.com/acme/x.git?ref={name}1.2.3: no mapping can have a tag that begins with "{name}"
		10: git::https://git.example.com/acme/x.git?ref=a..b/v1.2.3: no mapping can have this source: tags: no tag can have such a name
		11: : modproxy downloads from git by https and ssh, not by "file"
		12: : invalid: location: want the URL of a package, not a local path or a module address
		13: : its source is not the URL of a repository`},
	"credentials": {[]string{
		"git::https://user:secret@git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://secret@git.example.com/acme/terraform-aws-eks.git?ref=main",
		"git::ssh://git:secret@git.example.com/acme/terraform-aws-net.git?ref=v1.2.3",
		"git::ssh://git@git.example.com/acme/terraform-aws-log.git?ref=v1.2.3&sshkey=secret",
		"git::https://user:secret/x@git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://git.example.com:secret/acme/terraform-aws-vpc.git?ref=v1.2.3",
	}, `
		acme/vpc/aws = git::https://git.example.com/acme/terraform-aws-vpc.git (1)
		# a call of git::https://git.example.com/acme/terraform-aws-vpc.git has a password, token or key, which is not carried over: configure it as a credential
		acme/{name}/{system} = git::ssh://git@git.example.com/acme/terraform-{system}-{name}.git (2)
		# a call of git::ssh://git@git.example.com/acme/terraform-aws-log.git has a password, token or key, which is not carried over: configure it as a credential
		# a call of git::ssh://git@git.example.com/acme/terraform-aws-net.git has a password, token or key, which is not carried over: configure it as a credential
		1: modules.example.com/acme/vpc/aws 1.2.3
		3: modules.example.com/acme/net/aws 1.2.3
		4: modules.example.com/acme/log/aws 1.2.3
		2: git::https://git.example.com/acme/terraform-aws-eks.git?ref=main: "main" is a branch, or a tag that is not a version
		5: : invalid: location: not a URL
		6: : invalid: location: not a URL`},
	"one address for two": {[]string{
		"git::https://git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://git.example.com/acme/terraform-aws-eks.git?ref=v1.2.3",
		"git::https://github.com/acme/terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://github.com/acme/Terraform-aws-vpc.git?ref=v1.2.3",
		"git::https://github.com/hashicorp/terraform-aws-consul.git?ref=v1.2.3",
		"git::https://github.com/cloudposse/terraform-null-label.git?ref=0.25.0",
		"cloudposse/label/null",
	}, `
		acme/vpc-2/aws = git::https://github.com/acme/Terraform-aws-vpc.git (1)
		# acme/vpc/aws is the address of git::https://git.example.com/acme/terraform-aws-vpc.git
		acme/vpc-3/aws = git::https://github.com/acme/terraform-aws-vpc.git (1)
		# acme/vpc/aws is the address of git::https://git.example.com/acme/terraform-aws-vpc.git
		cloudposse-git/label/null = git::https://github.com/cloudposse/terraform-null-label.git (1)
		# its namespace is not cloudposse, because modules or providers of that namespace come from another registry
		hashicorp-git/consul/aws = git::https://github.com/hashicorp/terraform-aws-consul.git (1)
		# its namespace is not hashicorp, because modules or providers of that namespace come from another registry
		acme/{name}/{system} = git::https://git.example.com/acme/terraform-{system}-{name}.git (2)
		1: modules.example.com/acme/vpc/aws 1.2.3
		2: modules.example.com/acme/eks/aws 1.2.3
		3: modules.example.com/acme/vpc-3/aws 1.2.3
		4: modules.example.com/acme/vpc-2/aws 1.2.3
		5: modules.example.com/hashicorp-git/consul/aws 1.2.3
		6: modules.example.com/cloudposse-git/label/null 0.25.0`},
}

func TestSuggest(t *testing.T) {
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got, want := text(of(t, test.sources...)), strings.ReplaceAll(strings.TrimSpace(test.want), "\t", "")+"\n"
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
