package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestNamesIn(t *testing.T) {
	for name, sample := range samples {
		if got, err := namesIn([]byte(sample.event)); err != nil || !slices.Equal(got, sample.names) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, sample.names)
		}
	}
	for _, event := range []string{"", "{", `{"repository": {}} x`, "payload=%7B%7D"} {
		if got, err := namesIn([]byte(event)); err == nil {
			t.Errorf("%q: %q", event, got)
		}
	}
	for _, event := range []string{"null", "[]", `"x"`, `{"repository": [], "project": null}`} {
		if got, err := namesIn([]byte(event)); err != nil || len(got) > 0 {
			t.Errorf("%q: %q, %v", event, got, err)
		}
	}
	var links []string
	for i := range 100 {
		links = append(links, fmt.Sprintf(`{"href": "https://git.example.com/%d"}`, i))
	}
	got, err := namesIn([]byte(`{"repository": {"links": {"clone": [` + strings.Join(links, ",") + `]}}}`))
	if err != nil || len(got) != maxNames {
		t.Errorf("many links: %q, %v", got, err)
	}
}

func TestName(t *testing.T) {
	for url, want := range map[string]string{
		"https://GIT.example.com/Acme/vpc.git":       "git.example.com/acme/vpc",
		"https://user@git.example.com/acme/vpc/":     "git.example.com/acme/vpc",
		"http://git.example.com:8443/acme/vpc.GIT":   "git.example.com/acme/vpc",
		"ssh://git@git.example.com:7999/acme/vpc":    "git.example.com/acme/vpc",
		"git@git.example.com:acme/vpc.git":           "git.example.com/acme/vpc",
		"git@git.example.com:/acme/vpc.git":          "git.example.com/acme/vpc",
		"git.example.com:acme/vpc.git":               "git.example.com/acme/vpc",
		"https://[::1]:8443/acme/vpc.git":            "::1/acme/vpc",
		"https://git.example.com/acme/%76pc":         "git.example.com/acme/vpc",
		"https://git.example.com/acme/../vpc.git":    "git.example.com/acme/../vpc", // another name: the mapping has a clean one
		"https://git.example.com":                    "",
		"https://git.example.com/.git":               "",
		"/acme/vpc.git":                              "",
		"":                                           "",
		"https://x/" + strings.Repeat("a", maxURL):   "",
		"https://%zz/acme":                           "",
		"https://git.example.com/acme/vpc.git?ref=1": "git.example.com/acme/vpc",
	} {
		if got := Name(url); got != want {
			t.Errorf("%.80q: %q; want %q", url, got, want)
		}
	}
}

// FuzzNamesIn: names are bounded, in one spelling, and those of any URL can be compared.
func FuzzNamesIn(f *testing.F) {
	for _, sample := range samples {
		f.Add([]byte(sample.event))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		names, err := namesIn(event)
		if err != nil && len(names) > 0 || len(names) > maxNames {
			t.Errorf("%q, %v", names, err)
		}
		for _, name := range names {
			host, path, ok := strings.Cut(name, "/")
			if !ok || host == "" || path == "" || name != strings.ToLower(name) {
				t.Errorf("%q", name)
			}
		}
	})
}
