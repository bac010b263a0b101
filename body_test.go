package modproxy_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// text is a file in memory.
type text struct{ *strings.Reader }

func (text) Close() error { return nil }

// Verify compares all bytes with the digest, and does not move the offset.
func TestNewBody(t *testing.T) {
	content := strings.Repeat("0123456789", 300_000)
	b := modproxy.NewBody(text{strings.NewReader(content)}, sha256.Sum256([]byte(content)))
	if _, err := b.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(b); err != nil || string(rest) != content[7:] {
		t.Errorf("%d bytes after Verify, %v; want %d", len(rest), err, len(content)-7)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify in a context that has ended: %v", err)
	}
	b = modproxy.NewBody(text{strings.NewReader(content[1:])}, sha256.Sum256([]byte(content)))
	if err := b.Verify(t.Context()); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Verify of other bytes: %v", err)
	}
}
