package modproxy_test

import (
	"context"
	"testing"

	"github.com/modproxy/modproxy"
)

// A request in the background stays there, also in contexts derived from its context, until a client waits for it.
func TestBackground(t *testing.T) {
	is := func(ctx context.Context, what string, want bool) {
		t.Helper()
		if modproxy.IsBackground(ctx) != want {
			t.Errorf("%s: in the background is %v; want %v", what, !want, want)
		}
	}
	client := t.Context()
	is(client, "what a client asks", false)
	modproxy.BringForward(client)
	run := modproxy.InBackground(client)
	detached, cancel := context.WithCancel(modproxy.WithClient(context.WithoutCancel(run), modproxy.Client{Name: "a"}))
	defer cancel()
	own := modproxy.InBackground(run)
	is(run, "a run", true)
	is(detached, "what is detached from it", true)
	is(own, "a question of it", true)
	is(client, "what a client asks besides", false)

	modproxy.BringForward(own)
	modproxy.BringForward(own)
	is(own, "the question, which a client waits for", false)
	is(run, "the rest of the run", true)
	modproxy.BringForward(run)
	is(detached, "what is detached, when a client waits for the run", false)
	<-modproxy.BroughtForward(detached)
	<-modproxy.BroughtForward(client)
}
