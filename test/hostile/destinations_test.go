//go:build linux

package hostile_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// internalTargets are spellings of forbidden addresses, as they may appear in a location.
var internalTargets = map[string]string{
	"metadata":              "https://169.254.169.254/latest/x.zip",
	"metadata-plain":        "http://169.254.169.254/latest/x.zip",
	"metadata-no-archive":   "https://169.254.169.254/latest/meta-data/",
	"decimal":               "https://2852039166/x.zip",
	"hex":                   "https://0xa9fea9fe/x.zip",
	"hex-dotted":            "https://0xa9.0xfe.0xa9.0xfe/x.zip",
	"octal":                 "https://0251.0376.0251.0376/x.zip",
	"short":                 "https://127.1/x.zip",
	"zero":                  "https://0/x.zip",
	"zeros":                 "https://0.0.0.0/x.zip",
	"loopback":              "https://127.0.0.1/x.zip",
	"loopback-other":        "https://127.8.8.8:443/x.zip",
	"loopback-port":         "https://127.0.0.1:5432/x.zip",
	"localhost":             "https://localhost/x.zip",
	"localhost-dot":         "https://localhost./x.zip",
	"localhost-case":        "https://LocalHost/x.zip",
	"ipv6-loopback":         "https://[::1]/x.zip",
	"ipv6-unspecified":      "https://[::]/x.zip",
	"ipv6-metadata":         "https://[fd00:ec2::254]/x.zip",
	"ipv6-mapped":           "https://[::ffff:a9fe:a9fe]/x.zip",
	"ipv6-mapped-dotted":    "https://[::ffff:169.254.169.254]/x.zip",
	"ipv6-compatible":       "https://[::a9fe:a9fe]/x.zip",
	"ipv6-translated":       "https://[64:ff9b::a9fe:a9fe]/x.zip",
	"ipv6-translated-local": "https://[64:ff9b:1::a9fe:a9fe]/x.zip",
	"ipv6-6to4":             "https://[2002:a9fe:a9fe::]/x.zip",
	"ipv6-teredo":           "https://[2001:0:a9fe:a9fe::1]/x.zip",
	"ipv6-zone":             "https://[fe80::1%25lo]/x.zip",
	"ipv6-zone-loopback":    "https://[::1%25lo]/x.zip",
	"alibaba":               "https://100.100.100.200/x.zip",
	"oracle":                "https://192.0.0.192/x.zip",
	"private":               "https://10.0.0.5/x.zip",
	"broadcast":             "https://255.255.255.255/x.zip",
	"multicast":             "https://224.0.0.1/x.zip",
	"documentation":         "https://192.0.2.1/x.zip",
	"user":                  "https://src.test@169.254.169.254/x.zip",
	"user-password":         "https://u:" + secretLocation + "@169.254.169.254/x.zip",
	"fragment":              "https://src.test#@169.254.169.254/x.zip",
	"fragment-after":        "https://169.254.169.254#@src.test/x.zip",
	"backslash":             `https://src.test\@169.254.169.254/x.zip`,
	"backslash-first":       `https:\\169.254.169.254/x.zip`,
	"percent":               "https://%31%36%39.254.169.254/x.zip",
	"full-width":            "https://１６９.254.169.254/x.zip",
	"ideographic-dot":       "https://169。254。169。254/x.zip",
	"circled":               "https://①⑥⑨.254.169.254/x.zip",
	"tab":                   "https://169.254.\t169.254/x.zip",
	"name":                  "https://inside.evil.test/x.zip",
	"name-dot":              "https://inside.evil.test./x.zip",
	"name-ipv6":             "https://inside6.evil.test/x.zip",
	"name-mapped":           "https://mapped.evil.test/x.zip",
	"name-loopback":         "https://loopback.evil.test/x.zip",
	"name-no-archive":       "https://inside.evil.test/x",
	"other-port":            "https://src.test:8443/x.zip",
	"other-port-ssh":        "https://src.test:22/x.zip",
	"plain-http":            "http://src.test/archives/good.tar.gz",
	"scheme-relative":       "//169.254.169.254/x.zip",
	"git":                   "git::https://169.254.169.254/x.git?ref=v1",
	"git-plain":             "git::http://169.254.169.254/x.git",
	"git-mapped":            "git::https://[::ffff:a9fe:a9fe]/x.git",
	"git-decimal":           "git::https://2852039166/x.git",
	"git-hex":               "git::https://0xa9fea9fe/x.git",
	"git-short":             "git::https://127.1/x.git",
	"git-name":              "git::https://inside.evil.test/x.git",
	"git-ipv6":              "git::https://inside6.evil.test/x.git",
	"git-port":              "git::https://src.test:9418/x.git",
	"git-user":              "git::https://src.test@169.254.169.254/x.git",
	"git-ssh":               "git::ssh://git@10.0.0.5/x.git",
	"git-scp":               "git@10.0.0.5:x.git",
	"git-protocol":          "git::git://10.0.0.5/x.git",
	"http-getter":           "http::https://169.254.169.254/x.zip",
	"s3":                    "s3::https://169.254.169.254/bucket/x.zip",
	"s3-plain":              "s3::http://169.254.169.254/bucket/x.zip",
	"gcs":                   "gcs::https://169.254.169.254/storage/v1/b/x.zip",
	"hg":                    "hg::https://169.254.169.254/x",
	"oci":                   "oci://169.254.169.254/x",
	"archive-by-query":      "https://169.254.169.254/x?archive=zip",
	"subdirectory":          "https://169.254.169.254/x.zip//sub",
	"port-0":                "https://src.test:0/x.zip",
	"port-too-large":        "https://src.test:65979/x.zip", // 443, cut to 16 bits
	"several-hosts":         "https://src.test,169.254.169.254/x.zip",
}

func TestInternalTargetsAreRefused(t *testing.T) {
	p := start(t, ordinary)
	const why = `not allowed|invalid|denied`
	few := shorter(t, "targets are said in a header, and some of them in the other two ways")
	for name, target := range internalTargets {
		p.run(name, func(t *testing.T) {
			header := located(target).host(t)
			p.refuse(t, module{header, "case", "header", "aws"}, "1.0.0", why)
			if few && !slices.Contains([]string{"decimal", "ipv6-mapped", "name", "plain-http", "git", "git-name"}, name) {
				return
			}
			body := (&registry{download: func(w http.ResponseWriter, _ *http.Request, _ string) {
				json.NewEncoder(w).Encode(map[string]string{"location": target})
			}}).host(t)
			p.refuse(t, module{body, "case", "body", "aws"}, "1.0.0", why)
			direct := (&registry{download: func(w http.ResponseWriter, _ *http.Request, _ string) {
				json.NewEncoder(w).Encode(map[string]any{"location": target, "use_registry_credentials": true})
			}}).host(t)
			p.refuse(t, module{direct, "case", "direct", "aws"}, "1.0.0", why)
		})
	}
	p.run("checksum-from-elsewhere", func(t *testing.T) {
		const target = "https://src.test/archives/good.tar.gz?checksum=file:https://169.254.169.254/SUMS"
		p.refuse(t, module{located(target).host(t), "case", "checksum", "aws"}, "1.0.0", why)
	})
	p.run("modproxy-itself", func(t *testing.T) {
		own := strings.Replace(p.url, "http:", "https:", 1)
		p.refuse(t, module{located(own + "/x.zip").host(t), "case", "self", "aws"}, "1.0.0", why)
	})
}

// A name that resolves to a good address in the first lookup leads nowhere else afterwards.
func TestRebindingLeadsNowhere(t *testing.T) {
	p := start(t, ordinary)
	broken := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "come again", http.StatusInternalServerError)
	})
	for name, to := range map[string][2]string{
		"archive":    {"rebind1.evil.test", "https://rebind1.evil.test/x.zip"},
		"page":       {"rebind2.evil.test", "https://rebind2.evil.test/x"},
		"repository": {"rebind3.evil.test", "git::https://rebind3.evil.test/x.git?ref=v1"},
	} {
		p.run(name, func(t *testing.T) {
			strangerAt(t, to[0], broken)
			world.names.rebind(to[0], strangersAddress, "169.254.169.254")
			m := module{located(to[1]).host(t), "case", "rebind", "aws"}
			p.refuse(t, m, "1.0.0", `not allowed|answered 500`)
			if len(world.strangers.at(to[0])) == 0 {
				t.Error("the good address was not asked: the case shows nothing")
			}
		})
	}
	p.run("registry", func(t *testing.T) {
		strangerAt(t, "rebind4.evil.test", broken)
		world.names.rebind("rebind4.evil.test", strangersAddress, "10.0.0.5")
		p.refuse(t, module{"rebind4.evil.test", "case", "rebind", "aws"}, "1.0.0", `not allowed|answered 500`)
	})
}

// For a name with good and bad addresses, modproxy connects only to the good ones.
func TestMixedAddresses(t *testing.T) {
	p := start(t, ordinary)
	strangerAt(t, "mixed.evil.test", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "no archive")
	}))
	world.names.set("mixed.evil.test", "169.254.169.254", "fd00:ec2::254", strangersAddress, "10.0.0.5")
	for _, kind := range []string{"https://mixed.evil.test/x.zip", "git::https://mixed.evil.test/x.git"} {
		p.run(strings.NewReplacer("/", "_", ":", "_").Replace(kind), func(t *testing.T) {
			p.refuse(t, module{located(kind).host(t), "case", "mixed", "aws"}, "1.0.0", `.`)
			if len(world.strangers.at("mixed.evil.test")) == 0 {
				t.Error("the good address was not asked: the case shows nothing")
			}
		})
	}
}
