package app

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/modproxy/modproxy/proxy"
)

// profilesPath is the beginning of the paths of profiles: that of package pprof, below /-.
const profilesPath = "/-/debug/pprof/"

// profiles returns the route that serves profiles of the process. Only the owner of the data directory may use it, by the socket,
// because a profile shows parts of the memory and costs processor time.
func profiles() proxy.Mount {
	return proxy.Mount{Method: "GET", Path: profilesPath, Kind: "api", Owner: true, Handle: func(w http.ResponseWriter, r *http.Request) error {
		switch strings.TrimPrefix(r.URL.Path, profilesPath) {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			http.StripPrefix("/-", http.HandlerFunc(pprof.Index)).ServeHTTP(w, r)
		}
		return nil
	}}
}
