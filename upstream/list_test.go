package upstream

import (
	"testing"

	"github.com/modproxy/modproxy"
)

func TestListPath(t *testing.T) {
	for want, q := range map[string]modproxy.Query{
		"?limit=15&offset=0":                               {Limit: 15},
		"?limit=15&offset=30&provider=aws&verified=true":   {Limit: 15, Offset: 30, System: "aws", Verified: true},
		"acme?limit=15&offset=0":                           {Limit: 15, Namespace: "acme"},
		"acme/vpc?limit=15&offset=0":                       {Limit: 15, Namespace: "acme", Name: "vpc"},
		"search?limit=15&offset=0&q=a+b%26limit%3D9%2F%23": {Limit: 15, Search: "a b&limit=9/#"},
		"search?limit=1&namespace=acme&offset=0&q=vpc":     {Limit: 1, Search: "vpc", Namespace: "acme"},
	} {
		if got := listPath(q); got != want {
			t.Errorf("%+v: %s; want %s", q, got, want)
		}
	}
}
