package oci

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestChallenges(t *testing.T) {
	for value, want := range map[string]string{
		`Bearer realm="https://a/t",service="b",scope="repository:c:pull,push"`: `[{bearer map[realm:https://a/t scope:repository:c:pull,push service:b]}]`,
		`Basic realm=x`: `[{basic map[realm:x]}]`,
		`basic Realm = "a \"b\"" , charset=UTF-8`:      `[{basic map[charset:UTF-8 realm:a "b"]}]`,
		`Basic realm="a", Bearer realm="b", x="c=d,e"`: `[{basic map[realm:a]} {bearer map[realm:b x:c=d,e]}]`,
		`Negotiate, Basic realm="a"`:                   `[{negotiate map[]} {basic map[realm:a]}]`,
		`Bearer realm="a", realm="b"`:                  `[{bearer map[realm:a]}]`,
		`Bearer realm="a`:                              `[{bearer map[realm:a]}]`,
		`Bearer realm="a\`:                             `[{bearer map[realm:a]}]`,
		`realm="a"`:                                    `[]`,
		`"Bearer"`:                                     `[]`,
		``:                                             `[]`,
	} {
		if got := fmt.Sprint(challengesOf(http.Header{"Www-Authenticate": {value}})); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// Reading ends, and returns no more than the header has.
func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://a/t",service="b"`)
	f.Add(`Basic realm="a", Bearer realm="b\"c`)
	f.Add("Negotiate abc==, =, ,")
	f.Fuzz(func(t *testing.T, value string) {
		n := 0
		for _, c := range challengesOf(http.Header{"Www-Authenticate": {value}}) {
			n += len(c.scheme)
			for name, text := range c.parameters {
				n += len(name) + len(text)
			}
			if c.scheme == "" || c.scheme != strings.ToLower(c.scheme) {
				t.Fatalf("the scheme %q", c.scheme)
			}
		}
		if n > len(value) {
			t.Fatalf("%d bytes of %d", n, len(value))
		}
	})
}
