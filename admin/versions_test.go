package admin_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/hint"
)

// A proxy that was not restarted after an upgrade has an older API: status says so, or ignores what it does not know.
func TestOtherVersions(t *testing.T) {
	dir := t.TempDir()
	claim, err := datadir.NewClaim(dir)
	must(t, err)
	defer claim.Close()
	socket, err := claim.Listen()
	must(t, err)
	defer socket.Close()
	var handle http.HandlerFunc
	go http.Serve(socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r) }))
	status := func(h http.HandlerFunc) (admin.Status, error) {
		t.Helper()
		handle = h
		api, _, err := admin.Reach(t.Context(), dir)
		must(t, err)
		return admin.StatusGet.Call(t.Context(), api, struct{}{}, nil)
	}
	_, err = status(http.NotFound)
	if err == nil || !strings.Contains(err.Error(), "another version") || len(hint.Of(err)) == 0 {
		t.Errorf("an older proxy: %v, %q", err, hint.Of(err))
	}
	s, err := status(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Modproxy-Api", "1")
		_, _ = io.WriteString(w, `{"done":{"version":"v9","upstreams":[{"host":"a.example","state":"asleep","mood":"calm"}],"room":{},"more":{"x":[1]}}}`)
	})
	if err != nil || s.Version != "v9" || len(s.Upstreams) != 1 || s.Upstreams[0].State != "asleep" {
		t.Errorf("a newer proxy: %+v, %v", s, err)
	}
}
