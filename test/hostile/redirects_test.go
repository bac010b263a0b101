//go:build linux

package hostile_test

import (
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
)

// badHops are forbidden targets of redirects.
var badHops = map[string]string{
	"metadata":    "https://169.254.169.254/x.zip",
	"mapped":      "https://[::ffff:a9fe:a9fe]/x.zip",
	"translated":  "https://[64:ff9b::a9fe:a9fe]/x.zip",
	"name":        "https://inside.evil.test/x.zip",
	"plain":       "http://src.test/archives/good.tar.gz",
	"port":        "https://src.test:8443/archives/good.tar.gz",
	"file":        "file:///etc/passwd",
	"gopher":      "gopher://127.0.0.1:5432/_x",
	"user":        "https://u:" + secretLocation + "@169.254.169.254/x.zip",
	"backslash":   `https://src.test\@169.254.169.254/x.zip`,
	"scheme-less": "//169.254.169.254/x.zip",
	"opaque":      "https:169.254.169.254/x.zip",
	"long":        "https://src.test/" + strings.Repeat("x", 20_000) + ".zip",
}

// A redirect reaches no destination that a location could not have.
func TestRedirectsOfArchives(t *testing.T) {
	p := start(t, ordinary)
	for name, target := range badHops {
		for _, status := range []int{302, 308} {
			p.run(fmt.Sprint(name, "-", status), func(t *testing.T) {
				second := stranger(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Location", target)
					w.WriteHeader(status)
				}))
				first := stranger(t, http.RedirectHandler("https://"+second+"/second.zip", http.StatusFound))
				m := module{located("https://" + first + "/first.zip").host(t), "case", "redirect", "aws"}
				p.refuse(t, m, "1.0.0", `not allowed|not the answer`)
				if n := len(world.strangers.at(second)); n != 1 && name != "long" {
					t.Errorf("the redirecting host was asked %d times; want once", n)
				}
			})
		}
	}
	p.run("loop", func(t *testing.T) {
		host := ""
		host = stranger(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/"+strings.Repeat("a", len(r.URL.Path))+".zip", http.StatusFound)
		}))
		p.refuse(t, module{located("https://" + host + "/x.zip").host(t), "case", "loop", "aws"}, "1.0.0", "redirects")
		if n := len(world.strangers.at(host)); n > 10 {
			t.Errorf("followed for %d requests; want at most 10", n)
		}
	})
	p.run("none", func(t *testing.T) {
		host := stranger(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusFound) }))
		p.refuse(t, module{located("https://" + host + "/x.zip").host(t), "case", "none", "aws"}, "1.0.0", "302|redirect")
	})
	p.run("to-a-good-place", func(t *testing.T) {
		host := stranger(t, http.RedirectHandler("https://src.test/archives/good.tar.gz", http.StatusFound))
		p.mustInstall(module{located("https://" + host + "/x.tar.gz").host(t), "case", "good", "aws"}, "1.0.0")
	})
}

// A location in a page has the same restrictions as a location of the registry.
func TestPagesLeadNowhere(t *testing.T) {
	p := start(t, ordinary)
	targets := map[string]string{
		"helper":       "git::ext::sh -c touch% " + p.data + "/owned",
		"shadow":       "file:///etc/passwd",
		"getter-file":  "file::/etc/passwd",
		"path":         "/etc/passwd",
		"git-file":     "git::file:///etc",
		"s3-metadata":  "s3::http://169.254.169.254/bucket/x.zip",
		"git-metadata": "git::https://169.254.169.254/x.git",
		"option":       "git::--upload-pack=touch " + p.data + "/owned",
		"other":        "good/archive/aws",
		"empty":        " ",
	}
	for name, target := range badHops {
		targets[name] = target
	}
	for name, target := range targets {
		forms := map[string]http.HandlerFunc{
			"header": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Terraform-Get", target) },
			"meta": func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, `<html><head><meta name="terraform-get" content="%s"></head></html>`, html.EscapeString(target))
			},
			"redirected": func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/again") {
					http.Redirect(w, r, "/again?"+r.URL.RawQuery, http.StatusFound)
					return
				}
				w.Header().Set("X-Terraform-Get", target)
			},
		}
		for form, answer := range forms {
			p.run(name+"-"+form, func(t *testing.T) {
				gits := len(p.gits())
				page := stranger(t, answer)
				p.refuse(t, module{located("https://" + page + "/page").host(t), "case", "page", "aws"}, "1.0.0", `not allowed|invalid|denied|answered 404|more than 10 redirects`)
				if now := p.gits(); len(now) > gits {
					t.Errorf("git was started: %q", now[gits:])
				}
			})
		}
	}
}

// Pages that lead to each other end. One location costs at most ten requests of any kind.
func TestPagesEnd(t *testing.T) {
	p := start(t, ordinary)
	asked := map[string]int{}
	for name, answer := range map[string]http.HandlerFunc{
		"itself": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Terraform-Get", "/page") },
		"longer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Terraform-Get", "https://"+r.Host+r.URL.Path+"x")
		},
		"with-redirects": func(w http.ResponseWriter, r *http.Request) {
			if len(r.URL.Path)%6 != 0 {
				http.Redirect(w, r, r.URL.Path+"x?"+r.URL.RawQuery, http.StatusFound)
				return
			}
			w.Header().Set("X-Terraform-Get", "https://"+r.Host+r.URL.Path+"x")
		},
		"redirects-to-an-archive": func(w http.ResponseWriter, r *http.Request) {
			if n := len(r.URL.Path); strings.HasSuffix(r.URL.Path, ".zip") || n%4 != 0 {
				http.Redirect(w, r, "/x"+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
			} else if n < 20 {
				w.Header().Set("X-Terraform-Get", "https://"+r.Host+r.URL.Path+"x")
			} else {
				w.Header().Set("X-Terraform-Get", "https://"+r.Host+"/x.zip")
			}
		},
		"broken-in-between": func(w http.ResponseWriter, r *http.Request) {
			if asked[r.Host]++; asked[r.Host]%2 == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			http.Redirect(w, r, r.URL.Path+"x?"+r.URL.RawQuery, http.StatusFound)
		},
		"endless-page": func(w http.ResponseWriter, r *http.Request) { endless(w, "<html><head>", "<meta name=x>") },
		"deep-page":    func(w http.ResponseWriter, r *http.Request) { endless(w, "<html><head>", "<a>") },
		"one-tag":      func(w http.ResponseWriter, r *http.Request) { endless(w, "<html><head><meta ", "a='b' ") },
	} {
		p.run(name, func(t *testing.T) {
			host := stranger(t, answer)
			p.refuse(t, module{located("https://" + host + "/page").host(t), "case", "end", "aws"}, "1.0.0", `lead to another|redirects|larger|answered 503`)
			if n := len(world.strangers.at(host)); n > 10 {
				t.Errorf("asked %d times; want at most 10", n)
			}
		})
	}
}
