package modproxy

import "context"

type askerKey struct{}

// WithAsker returns a context for the questions of one client, by a name that no other
// has. Layers that can do only so much at a time do it in turn for all askers.
func WithAsker(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, askerKey{}, name)
}

// AskerOf returns the name of the client that asks; empty if it has none.
func AskerOf(ctx context.Context) string {
	name, _ := ctx.Value(askerKey{}).(string)
	return name
}
