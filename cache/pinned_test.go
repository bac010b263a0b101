package cache_test

import (
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// other has packages that are not pinned.
var other = modproxy.Module{Host: vpc.Host, Namespace: "other", Name: "vpc", System: "aws"}

func pinVPC(f *fixture) {
	f.Pinned = func(m modproxy.Module) bool { return m.Namespace == vpc.Namespace }
}

// fetchOther makes a package of other be there.
func (f *fixture) fetchOther(t *testing.T, version string) error {
	p, err := f.Package(t.Context(), other.At(version))
	if err != nil {
		return err
	}
	return p.Close()
}

func TestPinnedIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		pinVPC(f)
		f.fetch(t, "300.1.0")
		for _, version := range []string{"200.1.0", "200.2.0", "200.3.0", "200.4.0", "200.5.0"} {
			time.Sleep(time.Second)
			if err := f.fetchOther(t, version); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, "there", f.there(t), "300.1.0")
		f.settled(t, 900)

		// Also after a restart, and when the bound is lowered.
		f.max = 400
		f.restart(t)
		pinVPC(f)
		f.Start()
		synctest.Wait()
		equal(t, "there", f.there(t), "300.1.0")
		f.settled(t, 300)

		var full *modproxy.NoSpace
		asked := time.Now()
		if err := f.fetchOther(t, "200.6.0"); !errors.As(err, &full) || !strings.Contains(err.Error(), "pinned") {
			t.Errorf("nothing may go: %v", err)
		}
		equal(t, "waited", time.Since(asked), 0)
		if _, err := f.Discard(t.Context(), vpc, "300.1.0"); err != nil {
			t.Error(err)
		}
		equal(t, "there after it was removed by hand", f.there(t), "")
	})
}

// What was set aside counts, and does not go.
func TestWhatIsSetAsideCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		aside, wrong := int64(0), error(nil)
		f.Beside = func() (int64, error) { return aside, wrong }
		f.fetch(t, "300.1.0")
		time.Sleep(time.Second)
		f.fetch(t, "300.2.0")
		time.Sleep(time.Second)
		aside = 400
		f.fetch(t, "300.3.0")
		equal(t, "there", f.there(t), "300.2.0 300.3.0")
		aside = 900
		var full *modproxy.NoSpace
		time.Sleep(time.Second)
		if _, err := read(f.Registry, "300.4.0"); !errors.As(err, &full) {
			t.Errorf("no room: %v", err)
		}
		wrong = errors.New("no such directory")
		time.Sleep(time.Minute)
		if _, err := read(f.Registry, "300.5.0"); !errors.Is(err, wrong) {
			t.Errorf("%v, want %v", err, wrong)
		}
	})
}

// What is set aside while somebody waits for room counts at once.
func TestSetAsideWhileRoomIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBounded(t, 1000)
		f.Beside = func() (n int64, err error) {
			for _, blob := range f.blobs.Quarantined() {
				n += int64(len(blob))
			}
			return n, nil
		}
		f.fetch(t, "600.1.0")
		f.fetch(t, "300.2.0")
		synctest.Wait()
		rec, err := f.index.Package(vpc, "600.1.0")
		if err != nil {
			t.Fatal(err)
		}
		var reading []*modproxy.Package
		for _, version := range []string{"600.1.0", "300.2.0"} {
			p, err := f.Package(t.Context(), vpc.At(version))
			if err != nil {
				t.Fatal(err)
			}
			reading = append(reading, p)
		}
		var group sync.WaitGroup
		get := func(version string) {
			group.Go(func() {
				if p, err := f.Package(t.Context(), vpc.At(version)); err == nil {
					_, _ = io.ReadAll(p)
					p.Close()
				}
			})
			time.Sleep(time.Second)
		}
		get("400.3.0") // waits for who reads
		f.blobs.Replace(rec.Digest, make([]byte, 600))
		get("600.1.0") // finds it damaged
		for _, p := range reading[1:] {
			p.Close()
		}
		synctest.Wait()
		kept, reserved := f.Usage()
		aside, _ := f.Beside()
		if all := kept + reserved + aside; aside != 600 || all > 1000 {
			t.Errorf("%d bytes: %d kept, %d reserved, %d set aside", all, kept, reserved, aside)
		}
		reading[0].Close()
		group.Wait()
	})
}
