//go:build linux

package hostile_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Locations that try to become an option, a command or a file of this machine are refused before a program is started for them. OWNED is
// a file that modproxy could write.
var hostileLocations = map[string]string{
	"ext":                     "git::ext::sh -c touch% OWNED",
	"ext-escaped":             "git::ext::sh%20-c%20touch%25%20OWNED",
	"ext-bare":                "ext::sh -c touch% OWNED",
	"fd":                      "git::fd::17",
	"upload-pack":             "git::--upload-pack=touch OWNED",
	"upload-pack-slash":       "git::--upload-pack=touch%20OWNED/x.git",
	"upload-pack-ref":         "git::https://src.test/good/git.git?ref=--upload-pack=touch+OWNED",
	"option-ref":              "git::https://src.test/good/git.git?ref=-b",
	"option-ref-escaped":      "git::https://src.test/good/git.git?ref=%2Db",
	"option-after-ref":        "git::https://src.test/good/git.git?ref=v1.0.0%20--upload-pack=touch",
	"range":                   "git::https://src.test/good/git.git?ref=a..b",
	"newline":                 "git::https://src.test/good/git.git?ref=v1.0.0%0a--exec",
	"nul":                     "git::https://src.test/good/git.git?ref=v1.0.0%00",
	"reflog":                  "git::https://src.test/good/git.git?ref=HEAD@%7B1%7D",
	"caret":                   "git::https://src.test/good/git.git?ref=%5Ev1.0.0",
	"colon":                   "git::https://src.test/good/git.git?ref=v1.0.0:refs/heads/x",
	"plus":                    "git::https://src.test/good/git.git?ref=%2Bv1.0.0",
	"star":                    "git::https://src.test/good/git.git?ref=refs/*",
	"lock":                    "git::https://src.test/good/git.git?ref=x.lock",
	"space":                   "git::https://src.test/good/git.git?ref=a%20b",
	"two-refs":                "git::https://src.test/good/git.git?ref=v1.0.0&ref=-b",
	"long-ref":                "git::https://src.test/good/git.git?ref=" + strings.Repeat("a", 3000),
	"ssh-option-host":         "git::ssh://-oProxyCommand=touch%20OWNED/x.git",
	"ssh-option-user":         "git::ssh://-oProxyCommand=touch@src.test/x.git",
	"ssh-option-path":         "git::ssh://git@src.test/-oProxyCommand=touch",
	"ssh-without-identity":    "git::ssh://git@src.test/x.git",
	"ssh-command":             "git::ssh://git@src.test/x.git;touch%20OWNED",
	"ssh-substitution":        "git::ssh://git@src.test/$(touch OWNED)",
	"scp-option":              "git@-oProxyCommand=touch:x.git",
	"scp-backtick":            "git@src.test:`touch OWNED`",
	"git-file":                "git::file:///etc",
	"git-file-host":           "git::file://src.test/etc",
	"git-path":                "git::/etc",
	"git-data":                "git::DATA",
	"git-file-data":           "git::file://DATA",
	"file":                    "file:///etc/passwd",
	"file-getter":             "file::/etc/passwd",
	"file-archive":            "file:///etc/passwd?archive=zip",
	"path":                    "/etc/passwd", // path on the registry
	"bare-path":               "etc/passwd",
	"home":                    "~/.ssh/id_rsa",
	"windows":                 `C:\Windows\x.zip`,
	"unc":                     `\\169.254.169.254\share\x.zip`,
	"hg":                      "hg::https://src.test/x?rev=--config=alias.pull=!touch%20OWNED",
	"hg-ssh":                  "hg::ssh://-oProxyCommand=touch/x",
	"oci-user":                "oci://u:" + secretLocation + "@src.test/x?tag=1",
	"oci-dot-dot":             "oci://src.test/../../x?tag=1",
	"oci-tag":                 "oci://src.test/x?tag=../../../x",
	"oci-digest":              "oci://src.test/x?digest=sha256:../x",
	"oci-query":               "oci://src.test/x?token=" + secretQuery,
	"oci-in-https":            "oci::https://src.test/x",
	"s3":                      "s3::https://s3.amazonaws.com/bucket/x.zip?aws_access_key_id=a&aws_access_key_secret=" + secretQuery,
	"gcs":                     "gcs::https://www.googleapis.com/storage/v1/b/x.zip",
	"sshkey":                  "git::https://src.test/good/git.git?sshkey=" + secretQuery,
	"depth-negative":          "git::https://src.test/good/git.git?depth=-1",
	"depth-zero":              "git::https://src.test/good/git.git?depth=0",
	"depth-option":            "git::https://src.test/good/git.git?depth=1%20--upload-pack=touch",
	"depth-huge":              "git::https://src.test/good/git.git?depth=99999999999999999999",
	"unknown-query":           "git::https://src.test/good/git.git?config=core.fsmonitor",
	"password-in-git":         "git::https://u:" + secretLocation + "@src.test/good/git.git",
	"query-in-git":            "git::https://src.test/good/git.git?token=" + secretQuery,
	"two-getters":             "git::git::https://src.test/good/git.git",
	"getter-in-getter":        "git::ext::https://src.test/good/git.git",
	"file-in-http":            "https::file:///etc/passwd",
	"dot-dot":                 "git::https://src.test/../../etc.git",
	"dot-dot-escaped":         "git::https://src.test/%2e%2e/%2e%2e/etc.git",
	"option-path":             "git::https://src.test/--upload-pack=touch",
	"control":                 "git::https://src.test/a%0db.git",
	"subdirectory-out":        "https://src.test/archives/good.tar.gz//../../etc",
	"subdirectory-out-hidden": "https://src.test/archives/good.tar.gz//a/../../etc",
	"subdirectory-backslash":  `https://src.test/archives/good.tar.gz//..\..\etc`,
	"module-address":          "good/archive/aws",
	"data":                    "data:application/zip;base64,UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==",
	"javascript":              "javascript:alert(1)",
	"nothing":                 " ",
	"long":                    "https://src.test/" + strings.Repeat("a", 5000) + ".zip",
}

func TestLocationsAreNoCommands(t *testing.T) {
	p := start(t, ordinary)
	owned := filepath.Join(p.data, "owned")
	for name, location := range hostileLocations {
		location = strings.NewReplacer("OWNED", owned, "DATA", p.data).Replace(location)
		p.run(name, func(t *testing.T) {
			before := len(p.gits())
			p.refuse(t, module{located(location).host(t), "case", "command", "aws"}, "1.0.0", `invalid|denied|\.evil\.test answered 404`)
			if started := p.gits()[before:]; len(started) > 0 {
				t.Errorf("git was started with %q", started)
			}
			if _, err := os.Stat(owned); err == nil {
				t.Error("a command of the location was run")
			}
		})
	}
}

// Odd but legal names of branches, paths and hosts can be passed to git: none of them is taken for anything else.
func TestOddButLegalRefs(t *testing.T) {
	p := start(t, ordinary)
	refs := []string{"$(id)", "refs/heads/a@b", "über", "v1.0.0", "#1", "a@b", "`id`", ";id"}
	if shorter(t, "three odd refs of eight") {
		refs = refs[:3]
	}
	for _, ref := range refs {
		p.run(url.PathEscape(ref), func(t *testing.T) {
			location := "git::https://src.test/good/odd.git?ref=" + url.QueryEscape(ref)
			a := p.install(module{located(location).host(t), "case", "ref", "aws"}, "1.0.0")
			if a.Status != 200 {
				t.Fatalf("%d: %s", a.Status, a.Said())
			}
			if got, want := unpack(t, a.Body)["main.tf"].data, strings.TrimPrefix(ref, "refs/heads/")+"\n"; got != want {
				t.Errorf("ref %q has %q; want %q", ref, got, want)
			}
		})
	}
}
