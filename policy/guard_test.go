package policy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/policy"
)

// pieces counts writes, and calls after with the number of each write.
type pieces struct {
	bytes.Buffer
	n     int
	after func(n int)
}

func (p *pieces) Write(b []byte) (int, error) {
	p.n++
	n, err := p.Buffer.Write(b)
	if p.after != nil {
		p.after(p.n)
	}
	return n, err
}

// A package in memory is written without a copy. If it is refused meanwhile, writing stops before its end.
func TestWriteTo(t *testing.T) {
	const piece = 64 << 10
	for _, blocked := range []bool{false, true} {
		f := newFixture(rules(t, "allow "+all))
		f.next.content = strings.Repeat("x", 3*piece+1)
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		out := &pieces{}
		want := len(f.next.content)
		if blocked {
			out.after = func(n int) {
				if n == 2 {
					f.book.decide(modproxy.Block, "")
					f.Gate.Follow(t.Context())
				}
			}
			want = 2 * piece
		}
		n, err := io.Copy(out, p.Body)
		if blocked {
			equal(t, "outcome", refusalOf(t, err).Outcome, policy.Blocked)
		} else if err != nil {
			t.Error(err)
		}
		equal(t, fmt.Sprintf("blocked: %v: written", blocked), n, int64(want))
		equal(t, "received", out.Len(), want)
	}
}

// filed is a package of zeros in a file.
type filed struct{ modproxy.Registry }

type zeros struct{ modproxy.Body }

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func (z zeros) SendTo(w io.Writer, n int64) (int64, error) {
	return w.(io.ReaderFrom).ReadFrom(&io.LimitedReader{R: z, N: n})
}

func (f filed) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := f.Registry.Package(ctx, v)
	if err == nil {
		p.Body = zeros{p.Body}
	}
	return p, err
}

// taking calls after with the number of bytes so far.
type taking struct {
	io.Writer
	n     int64
	after func(n int64)
}

func (w *taking) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	w.n += n
	w.after(w.n)
	return n, err
}

// A file is sent while it is not refused.
func TestSendTo(t *testing.T) {
	const piece = 64 << 10
	for _, blocked := range []bool{false, true} {
		f := newFixture(rules(t, "allow "+all))
		f.Registry.Next = filed{f.Registry.Next}
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		out := &taking{after: func(n int64) {
			if blocked && n == 2*piece {
				f.book.decide(modproxy.Block, "")
				f.Gate.Follow(t.Context())
			}
		}}
		want := int64(5*piece + 1)
		n, err := p.Body.(modproxy.Sender).SendTo(out, want)
		if blocked {
			want = 2 * piece
			equal(t, "outcome", refusalOf(t, err).Outcome, policy.Blocked)
		} else if err != nil {
			t.Error(err)
		}
		equal(t, fmt.Sprintf("blocked: %v: written", blocked), n, want)
		equal(t, "taken", out.n, want)
	}
}

// Seeking works in a refused package. Reading fails at every position, and works again once the package is allowed.
func TestSeekWhenRefused(t *testing.T) {
	f := newFixture(nil)
	p, err := f.Package(t.Context(), vpc.At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	decide := func(action modproxy.Action) {
		f.book.decide(action, "")
		f.Gate.Follow(t.Context())
	}
	decide(modproxy.Block)
	for whence, want := range []int64{11, 22, 33} {
		at, err := p.Seek(11, whence)
		if err != nil || at != want {
			t.Errorf("whence %d: at %d, %v; want %d", whence, at, err, want)
		}
		n, err := p.Read(make([]byte, 4))
		equal(t, "bytes", n, 0)
		equal(t, "outcome", refusalOf(t, err).Outcome, policy.Blocked)
	}
	decide(modproxy.Unblock)
	p.Seek(11, io.SeekStart)
	rest, err := io.ReadAll(p)
	if err != nil || string(rest) != f.next.content[11:] {
		t.Errorf("%q, %v", rest, err)
	}
}

// After a block was made, no byte is read and no package is opened, also for requests in progress.
func TestBlockRaces(t *testing.T) {
	f := newFixture(rules(t, "allow "+all))
	f.Observe = nil
	f.next.content = strings.Repeat("x", 1<<20)
	var blocked atomic.Bool
	open := func() {
		was := blocked.Load()
		p, err := f.Package(t.Context(), vpc.At("1.0.0"))
		if was && err == nil {
			t.Error("a blocked package is opened")
		}
		for piece := make([]byte, 1<<10); err == nil; {
			was := blocked.Load()
			var n int
			if n, err = p.Read(piece); was && n > 0 {
				t.Error("a blocked package is read")
			}
		}
		if p != nil {
			p.Close()
		}
		if err != io.EOF {
			refusalOf(t, err)
		}
	}
	for end, round := time.Now().Add(3*time.Second), 0; round < 1000 && time.Now().Before(end) && !t.Failed(); round++ {
		var group sync.WaitGroup
		for range 3 {
			group.Go(open)
		}
		f.book.decide(modproxy.Block, "")
		f.Gate.Follow(t.Context())
		blocked.Store(true)
		group.Go(open)
		group.Wait()
		blocked.Store(false)
		f.book.decide(modproxy.Unblock, "")
		f.Gate.Follow(t.Context())
	}
}
