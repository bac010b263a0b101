//go:build linux

package faults_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
)

// toyVersions is the number of versions of the provider that clients request: 1.1.0, 1.2.0 and so on.
const toyVersions = 48

// toys is a registry of a provider. Packages of odd versions have more than a MiB, those of even ones a few bytes.
var toys = sync.OnceValues(func() (http.Handler, error) {
	fixture := &txtar.Archive{}
	for i := 1; i <= toyVersions; i++ {
		fixture.Files = append(fixture.Files, txtar.File{
			Name: fmt.Sprintf("providers/acme/toy/1.%d.0", i), Data: fmt.Appendf(nil, "size=%d\n", i%2),
		})
	}
	return registrytest.StartArchive(fixture, registrytest.Options{})
})

// ofProviders reports whether a request is about a provider.
func ofProviders(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/providers/") || strings.HasPrefix(r.URL.Path, "/releases/")
}

const (
	toyPath  = "/up.example.com/v1/providers/acme/toy"
	platform = runtime.GOOS + "_" + runtime.GOARCH
)

// zipPath is the path of the provider's package for a platform.
func zipPath(version, platform string) string {
	return fmt.Sprintf("%s/%s/%s/terraform-provider-toy_%[2]s_%[3]s.zip", toyPath, version, platform)
}

// toyZip is the path of the package of a version; versions repeat.
func toyZip(i int64) string { return zipPath(fmt.Sprintf("1.%d.0", 1+i%toyVersions), platform) }

// providersAreWhole fails the test unless every stored package of the provider is served offline. It returns their number.
func (r *proxy) providersAreWhole(when string) (zips int) {
	r.t.Helper()
	kept, err := r.kept()
	if err != nil {
		r.t.Fatal(err)
	}
	r.start("--offline")
	defer r.stop()
	r.ready()
	for path, digest := range kept {
		if !strings.HasSuffix(path, "_"+platform+".zip") {
			continue
		}
		zips++
		a := r.ask("GET", path)
		if is := fmt.Sprintf("%x", sha256.Sum256(a.Body)); a.Status != http.StatusOK || is != digest {
			r.t.Errorf("%s: %s: %v", when, path, a)
		}
	}
	return zips
}
