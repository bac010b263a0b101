package mirror

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/modproxy/modproxy"
)

// contents has the same content for every version.
type contents struct {
	modproxy.Registry
	content []byte
}

func (c contents) Package(context.Context, modproxy.Ref) (*modproxy.Package, error) {
	return &modproxy.Package{Body: body{bytes.NewReader(c.content)}, Size: int64(len(c.content))}, nil
}

type body struct{ *bytes.Reader }

func (body) Close() error                 { return nil }
func (body) Verify(context.Context) error { return nil }

// A line belongs to its receiver, which may change it: the content follows all the same.
func TestLinesBelongToTheReceiver(t *testing.T) {
	want := []byte("content")
	o := newOutput(Request{Content: true}, contents{content: want}, newProgress())
	const packages = 100
	ended := make(chan error, 1)
	go func() {
		defer close(o.lines)
		for i := range packages {
			v := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}.At(fmt.Sprintf("1.0.%d", i))
			o.record(v, &modproxy.Package{Size: int64(len(want)), Digest: modproxy.Digest{byte(i)}})
			if err := o.emitPackage(t.Context(), v); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	var got []byte
	for line := range o.lines {
		if line.Package != nil {
			line.Package.Data, line.Package.Size, line.Package.Digest = false, 0, modproxy.Digest{}
		}
		got = append(got, line.Data...)
	}
	if err := <-ended; err != nil || !bytes.Equal(got, bytes.Repeat(want, packages)) {
		t.Errorf("%d bytes, want %d; %v", len(got), packages*len(want), err)
	}
}
