package auth_test

import (
	"errors"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// A token never has a scope, or a life, that its creator does not have.
func TestMayCreate(t *testing.T) {
	end := time.Now().Add(time.Hour)
	scopes := func(all ...string) (out auth.Scopes) {
		for _, s := range all {
			scope, err := auth.ParseScope(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, scope)
		}
		return out
	}
	operator := func(until time.Time, all ...string) auth.Principal {
		return auth.Principal{Kind: auth.ByToken, Name: "ops", Until: until, Grant: auth.Grant{Admin: true, Scopes: scopes(all...)}}
	}
	spec := func(until time.Time, all ...string) auth.Token {
		return auth.Token{Expires: until, Scopes: scopes(all...), Admin: true}
	}
	never, reader := time.Time{}, operator(time.Time{}, "*")
	reader.Admin, reader.Refresh = false, true
	for name, test := range map[string]struct {
		by  auth.Principal
		of  auth.Token
		may bool
	}{
		"the owner":              {auth.Owner, spec(never, "*"), true},
		"the same":               {operator(end, "a.example/acme"), spec(end, "a.example/acme"), true},
		"no scope":               {operator(never), spec(never), true},
		"fewer":                  {operator(never, "*"), spec(end, "a.example/*", "*/acme", "b.example/x"), true},
		"one of several":         {operator(never, "a.example/acme", "b.example/*"), spec(never, "b.example/x"), true},
		"a scope of its own":     {operator(never), spec(never, "a.example/acme"), false},
		"another namespace":      {operator(never, "a.example/acme"), spec(never, "a.example/corp"), false},
		"another host":           {operator(never, "a.example/*"), spec(never, "b.example/acme"), false},
		"every namespace":        {operator(never, "a.example/acme"), spec(never, "a.example/*"), false},
		"every host":             {operator(never, "a.example/acme"), spec(never, "*/acme"), false},
		"everything":             {operator(never, "a.example/*", "*/acme"), spec(never, "*"), false},
		"two halves":             {operator(never, "a.example/acme", "b.example/corp"), spec(never, "a.example/corp"), false},
		"another case":           {operator(never, "a.example/acme"), spec(never, "a.example/Acme"), false},
		"longer":                 {operator(end, "*"), spec(end.Add(time.Second), "*"), false},
		"for ever":               {operator(end, "*"), spec(never, "*"), false},
		"shorter":                {operator(end, "*"), spec(end.Add(-time.Second), "*"), true},
		"no operator":            {reader, auth.Token{Expires: end, Scopes: scopes("*")}, false},
		"no client":              {auth.Principal{}, auth.Token{Scopes: scopes("*")}, false},
		"a nested source":        {auth.HasAddress(modproxy.Address{Host: "a.example", Namespace: "acme"}), spec(never, "a.example/acme"), false},
		"an anonymous principal": {auth.Principal{Kind: auth.Anonymous, Grant: auth.Grant{Scopes: scopes("*")}}, auth.Token{Scopes: scopes("*")}, false},
	} {
		switch err := test.by.MayCreate(test.of); {
		case (err == nil) != test.may:
			t.Errorf("%s: %v", name, err)
		case err != nil && !errors.Is(err, modproxy.ErrDenied):
			t.Errorf("%s: %v is not a denial", name, err)
		}
	}
}
