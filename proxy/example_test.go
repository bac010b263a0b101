package proxy_test

import (
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/test/registrytest"
)

// A Handler serves the modules of a registry. Here it is one in memory; behind rewrite its locations point at the proxy.
func Example() {
	registry, err := registrytest.NewMemory("registry.example.com", registrytest.Modules())
	if err != nil {
		log.Fatal(err)
	}
	h := proxy.New(proxy.Config{
		Registry:  &rewrite.Registry{Next: registry},
		Upstreams: protocol.Upstreams{Default: "registry.example.com"},
		PublicURL: "https://modules.example.org",
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/modules/acme/network/aws/1.1.0/download", nil))
	fmt.Println(w.Code, w.Header().Get("X-Terraform-Get"))
	// Output: 204 https://modules.example.org/registry.example.com~/v1/modules/acme/network/aws/1.1.0/network-aws-1.1.0.tar.gz
}
