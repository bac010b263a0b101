package upstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/upstream"
)

// refuses is a registry that answers every question with an error that names it.
type refuses struct{ error }

func (r refuses) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	return nil, r.error
}

func (r refuses) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	return modproxy.Location{}, r.error
}

func (r refuses) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return nil, r.error
}

func (r refuses) PackageAt(context.Context, modproxy.Record) (*modproxy.Package, error) {
	return nil, r.error
}

func (r refuses) Commit(context.Context, modproxy.Ref) (string, error) { return "", r.error }

func (r refuses) Published(context.Context, modproxy.Address, []string) (map[string]time.Time, []string, error) {
	return nil, nil, r.error
}

func (r refuses) PublishedOf(context.Context, modproxy.Ref) (time.Time, error) {
	return time.Time{}, r.error
}

func (r refuses) Details(context.Context, modproxy.Ref) (*modproxy.Details, error) {
	return nil, r.error
}

func (r refuses) History(context.Context, modproxy.Address) (*modproxy.History, error) {
	return nil, r.error
}

func (r refuses) Downloads(context.Context, modproxy.Address) (*modproxy.Downloads, error) {
	return nil, r.error
}

func (r refuses) Text(context.Context, modproxy.Ref, string) (*modproxy.Text, error) {
	return nil, r.error
}

func (r refuses) List(context.Context, modproxy.Query) (*modproxy.Page, error) { return nil, r.error }

func (r refuses) OtherServices(context.Context, string) map[string]string {
	return map[string]string{"of": r.Error()}
}

func (r refuses) Document(context.Context, string, string) (string, []byte, error) {
	return "", nil, r.error
}

type reserve func(host, namespace string) error

func (r reserve) Reserved(host, namespace string) error { return r(host, namespace) }

func (r reserve) ReservedIn(host, text string) error {
	for word := range strings.FieldsSeq(text) {
		if err := r(host, word); err != nil {
			return err
		}
	}
	return nil
}

// A registry of another kind answers every question about its host, and none about others. Reserved names reach no
// registry.
func TestRouter(t *testing.T) {
	own, others := refuses{errors.New("own")}, refuses{errors.New("others")}
	never := errors.New("never")
	r := &upstream.Router{Hosts: map[string]upstream.Registry{"own.example": own}, Default: others, Reserve: reserve(func(host, namespace string) error {
		if host == "public.example" && namespace == "acme" {
			return never
		}
		return nil
	})}
	for host, want := range map[string]error{"own.example": own.error, "registry.example": others.error, "": others.error, "public.example": never} {
		v := modproxy.Address{Host: host, Namespace: "acme", Name: "network", System: "aws"}.At("1.0.0")
		_, versions := r.Versions(t.Context(), v.Address)
		_, location := r.Location(t.Context(), v)
		_, content := r.Package(t.Context(), v)
		_, at := r.PackageAt(t.Context(), modproxy.Record{Ref: v})
		_, commit := r.Commit(t.Context(), v)
		_, _, dates := r.Published(t.Context(), v.Address, nil)
		_, date := r.PublishedOf(t.Context(), v)
		_, details := r.Details(t.Context(), v)
		_, history := r.History(t.Context(), v.Address)
		_, downloads := r.Downloads(t.Context(), v.Address)
		_, text := r.Text(t.Context(), v, "101")
		_, list := r.List(t.Context(), modproxy.Query{Host: host, Namespace: "acme", Limit: 1})
		_, search := r.List(t.Context(), modproxy.Query{Host: host, Search: "a network of acme", Limit: 1})
		_, _, document := r.Document(t.Context(), host, "/search/?q=a+%61cme")
		for i, err := range []error{versions, location, content, at, commit, dates, date, details, history, downloads, text, list, search, document} {
			if !errors.Is(err, want) {
				t.Errorf("question %d about a module of %q went to %v", i, host, err)
			}
		}
		if of := r.OtherServices(t.Context(), host)["of"]; of != want.Error() && want != never {
			t.Errorf("%q: other services of %s", host, of)
		}
	}
}
