package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// asksVersions returns the answer to the request for the versions, or nil if its URL cannot be found.
func (v *visit) asksVersions() *answer {
	u, ok := v.in(v.path() + "/versions")
	if !ok {
		return nil
	}
	return v.get(ofModules, u)
}

// versionsOK returns that answer if it can be read, else nil. The rules versions.answer and versions.coding report the
// reason.
func (v *visit) versionsOK() *answer {
	if a := v.asksVersions(); a != nil && a.err == nil && a.status == http.StatusOK && v.reads(a) {
		return a
	}
	return nil
}

// reads reports whether the client can decode the body of a.
func (v *visit) reads(a *answer) bool {
	return a.coding == "" || a.coding == "gzip" && v.encoding != ""
}

// refused reports whether a requires a token, and the client cannot send one.
func (v *visit) refused(a *answer) bool {
	return v.token != "" && v.tokens == noToken && a.err == nil && a.status >= 400 && a.status < 500
}

func answersVersions(v *visit) Result {
	a := v.asksVersions()
	switch {
	case a == nil:
		return after("discovery.base")
	case a.err == nil && a.status == http.StatusOK:
		return pass("%d bytes", len(a.body))
	case v.refused(a):
		return after("auth.token")
	case a.err == nil && a.status == http.StatusNotFound && v.base == nil && !v.atRoot():
		return without("%s: %s asks at /v1/modules/, where this registry has no modules, and does not work with it", a, v.name)
	case a.err == nil && a.status == http.StatusUnauthorized && v.token == "":
		return fail("%s: the registry requires a token", a)
	}
	return fail("%s", a)
}

// atRoot reports whether discovery names /v1/modules/ as the URL of modules.
func (v *visit) atRoot() bool {
	d, err := v.discover()
	return err == nil && sameURL(v.rightly(d, ""), v.root.String()+"/v1/modules/")
}

func plainVersions(v *visit) Result {
	a := v.asksVersions()
	switch {
	case a == nil || a.err != nil || a.status != http.StatusOK:
		return after("versions.answer")
	case !v.reads(a):
		return fail("Content-Encoding %q for Accept-Encoding %q", a.coding, v.encoding)
	}
	return pass("Content-Encoding %q", a.coding)
}

// All members that the answer may have, as Go clients decode them.
type (
	fullVersions struct {
		Modules []*struct {
			Source   string
			Versions []*struct {
				Version    string
				Root       fullPart
				Submodules []*fullPart
			}
		}
	}
	fullPart struct {
		Path         string
		Providers    []*struct{ Name, Version string }
		Dependencies []*struct{ Name, Source, Version string }
	}
	leanVersions struct {
		Modules []struct{ Versions []struct{ Version string } }
	}
	sourceVersions struct {
		Modules []struct {
			Source   string
			Versions []struct{ Version string }
		}
	}
)

// decodes makes a rule of a type: the first JSON value of the answer must decode into it, or with whole the complete
// answer.
func decodes[T any](whole bool) func(*visit) Result {
	return func(v *visit) Result {
		a := v.versionsOK()
		if a == nil {
			return after("versions.answer")
		}
		if err := decode(a.body, new(T), whole); err != nil {
			return fail("%v", err)
		}
		return pass("it decodes")
	}
}

func decode(body []byte, to any, whole bool) (err error) {
	if whole {
		err = json.Unmarshal(body, to)
	} else {
		err = json.NewDecoder(bytes.NewReader(body)).Decode(to)
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%q is %s", strings.ToLower(wrong.Field), article(wrong.Value))
	}
	return err
}

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
}

// fetches is the rule of clients that read members by their exact names from any JSON value.
func fetches(v *visit) Result {
	a := v.versionsOK()
	if a == nil {
		return after("versions.answer")
	}
	var all any
	if err := json.Unmarshal(a.body, &all); err != nil {
		return fail("%v", err)
	}
	object, _ := all.(map[string]any)
	modules, ok := object["modules"].([]any)
	if !ok {
		return fail(`"modules" is not an array`)
	}
	if len(modules) == 0 {
		return after("versions.some")
	}
	object, _ = modules[0].(map[string]any)
	versions, ok := object["versions"].([]any)
	if !ok {
		return fail(`"versions" of the first module is not an array`)
	}
	for _, one := range versions {
		object, _ := one.(map[string]any)
		if _, ok := object["version"].(string); !ok {
			return fail(`a version has no string "version"`)
		}
	}
	return pass("all members exist")
}

// listed returns the versions of the first module, as they are spelled, and the number of modules.
func (v *visit) listed() (spelled []string, modules int, ok bool) {
	var all leanVersions
	a := v.versionsOK()
	if a == nil || decode(a.body, &all, false) != nil {
		return nil, 0, false
	}
	if len(all.Modules) > 0 {
		for _, one := range all.Modules[0].Versions {
			spelled = append(spelled, one.Version)
		}
	}
	return spelled, len(all.Modules), true
}

func someVersions(v *visit) Result {
	spelled, modules, ok := v.listed()
	switch {
	case !ok:
		return after("versions.shape")
	case modules == 0:
		return fail(`"modules" is empty`)
	case len(spelled) == 0:
		return fail(`"versions" is empty`)
	}
	return pass("%d of them", len(spelled))
}

func oneModule(v *visit) Result {
	switch _, modules, ok := v.listed(); {
	case !ok:
		return after("versions.shape")
	case modules == 0:
		return after("versions.some")
	case modules > 1:
		return fail("%d modules", modules)
	}
	return pass("one module")
}

// parsable makes a rule that reports invalid versions with bad.
func parsable(bad func(string, ...any) Result) func(*visit) Result {
	return func(v *visit) Result {
		spelled, _, ok := v.listed()
		if !ok {
			return after("versions.shape")
		}
		for _, s := range spelled {
			if _, err := modproxy.ParseVersion(s); err != nil {
				return bad("%.80q is not a version", s)
			}
		}
		return pass("all of them")
	}
}

func linksSource(v *visit) Result {
	var all sourceVersions
	a := v.versionsOK()
	if a == nil || decode(a.body, &all, false) != nil || len(all.Modules) == 0 {
		return after("versions.shape")
	}
	source := all.Modules[0].Source
	if u, err := url.Parse(source); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return without("the source is %.80q, which is not a URL: Renovate finds no release notes", source)
	}
	return pass("%s", source)
}

// newest returns the version that the client chooses without a constraint, as it is listed and as Terraform spells it.
func (v *visit) newest() (spelled, canonical string, ok bool) {
	all, _, _ := v.listed()
	type one struct {
		spelled string
		modproxy.Version
	}
	var candidates []one
	for _, s := range all {
		if parsed, err := modproxy.ParseVersion(s); err == nil {
			candidates = append(candidates, one{s, parsed})
		}
	}
	if len(candidates) == 0 {
		return "", "", false
	}
	best := slices.MaxFunc(candidates, func(a, b one) int {
		if a.Prerelease() != b.Prerelease() {
			if a.Prerelease() {
				return -1
			}
			return 1
		}
		return a.Compare(b.Version)
	})
	return best.spelled, best.Version.String(), true
}

const absent = "no-such-module-of-a-conformance-test"

func absentModule(v *visit) Result {
	if v.versionsOK() == nil {
		return after("versions.answer")
	}
	u, _ := v.in(v.Namespace + "/" + absent + "/" + v.System + "/versions")
	switch a := v.get(ofModules, u); {
	case a.err != nil:
		return fail("%s", a)
	case a.status == http.StatusNotFound:
		return pass("%s", a)
	case a.status == http.StatusOK && v.isEmptyModule(a):
		return warn("%s with a module without versions: the client says that the module has no versions", a)
	case a.status == http.StatusOK:
		return fail("%s: %.80q", a, a.body)
	case a.status >= 500 || a.status == http.StatusTooManyRequests:
		return fail("%s: the client treats it as a failure and retries", a)
	default:
		return warn("%s: the client does not report a missing module", a)
	}
}

// isEmptyModule reports whether a is a versions document of one module without versions. Clients distinguish that from
// an invalid document.
func (v *visit) isEmptyModule(a *answer) bool {
	var all leanVersions
	return v.reads(a) && decode(a.body, &all, true) == nil && len(all.Modules) == 1 && len(all.Modules[0].Versions) == 0
}

func showsToken(v *visit) Result {
	if v.token == "" {
		return without("no token was given")
	}
	a := v.asksVersions()
	switch {
	case a == nil:
		return after("discovery.base")
	case v.refused(a):
		return warn("%s: the registry requires a token, and %s cannot send one", a, v.name)
	case a.err != nil || a.status != http.StatusOK:
		return after("versions.answer")
	case v.tokens == noToken:
		return pass("the registry requires no token, and %s cannot send one", v.name)
	}
	return pass("%s", a)
}

// refusesStrangers sends the request of a client without a token.
func refusesStrangers(v *visit) Result {
	if v.token == "" {
		return without("no token was given")
	}
	stranger := *v.session
	stranger.token = ""
	switch a := (&visit{&stranger, v.client, v.ctx}).asksVersions(); {
	case a == nil:
		return after("discovery.base")
	case a.err != nil:
		return fail("%s", a)
	case a.status == http.StatusUnauthorized:
		return pass("%s", a)
	case a.status == http.StatusOK:
		return pass("%s: the registry requires no token", a)
	default:
		return warn("%s: the client does not report a missing token, as it does for 401", a)
	}
}
