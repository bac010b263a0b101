package disk

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"go.etcd.io/bbolt"
)

// layout is what layout.json says.
type layout struct {
	Layout int `json:"layout"`
	identity
}

// identity says which index belongs to a directory. The index has one, too.
type identity struct {
	// Directory is made with the directory, and stays.
	Directory string `json:"directory"`
	// Generation grows with every Open, and every Close after something was kept.
	// An index of a lower one than layout.json says is an older copy.
	Generation uint64 `json:"generation"`
}

// aboutBucket has one record, under aboutKey.
var (
	aboutBucket = []byte("v1/about")
	aboutKey    = []byte("about")
)

// aboutIndex is what an index says of itself.
type aboutIndex struct {
	identity
	Packages int `json:"packages"` // records in packagesBucket
}

// readAbout reads it. An index that was made by an older modproxy has none, as has
// one that was made just now.
func readAbout(tx *bbolt.Tx) (a aboutIndex, err error) {
	b := tx.Bucket(aboutBucket)
	if b == nil {
		return a, nil
	}
	rest, err := unseal(b.Get(aboutKey), &a)
	if err == nil && len(rest) > 0 {
		err = errDamaged
	}
	return a, err
}

func (a aboutIndex) put(tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(aboutBucket)
	if err != nil {
		return err
	}
	value, err := seal(a, nil)
	if err != nil {
		return err
	}
	return b.Put(aboutKey, value)
}

// putNew puts a package record, and counts it if it is the first of its key.
func putNew(tx *bbolt.Tx, key, value []byte) error {
	b := tx.Bucket(packagesBucket)
	if b.Get(key) == nil {
		a, err := readAbout(tx)
		if err != nil {
			return err
		}
		a.Packages++
		if err := a.put(tx); err != nil {
			return err
		}
	}
	return b.Put(key, value)
}

// identify holds the index to the layout, and begins a new generation, unless there
// is no room for that: who makes room needs to open the directory, too. It is
// called by Open.
func (s *Store) identify() (packages int, err error) {
	var a aboutIndex
	known := false
	err = s.update(func(tx *bbolt.Tx) (err error) {
		if a, err = s.aboutIndex(tx); err != nil {
			return err
		}
		if known = a.Directory != "" && a.Directory == s.layout.Directory; a.Directory == "" {
			a.Directory = rand.Text()
			a.Packages = tx.Bucket(packagesBucket).Stats().KeyN
		}
		a.Generation++
		return a.put(tx)
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		err = s.writeLayout(layout{layoutVersion, a.identity})
	}
	if known && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		err = nil
	}
	return a.Packages, err
}

// aboutIndex is what the index says of itself. Its error is that the index is not
// the one that the layout is about.
func (s *Store) aboutIndex(tx *bbolt.Tx) (aboutIndex, error) {
	is := s.layout.identity
	a, err := readAbout(tx)
	switch {
	case err != nil:
		return a, s.refuse("is damaged: %w", err)
	case is.Directory == "": // it is new, a crash came before the layout, or somebody removed that
	case a.Directory != is.Directory:
		return a, s.refuse("is not the one that belongs here")
	case a.Generation < is.Generation:
		return a, s.refuse("is an older copy of the one that belongs here (generation %d, and the directory has seen %d)", a.Generation, is.Generation)
	}
	return a, nil
}

// age makes every copy of the index that was made before an older one. It only
// helps to notice such a copy: errors of it are no reason to complain.
func (s *Store) age() {
	var a aboutIndex
	err := s.update(func(tx *bbolt.Tx) (err error) {
		if a, err = readAbout(tx); err != nil {
			return err
		}
		a.Generation++
		return a.put(tx)
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writeLayout(layout{layoutVersion, a.identity})
	}
}

func (s *Store) readLayout() error {
	l, err := readLayout(s.path(layoutName))
	if err == nil {
		s.layout = l
	}
	return err
}

// readLayout is the zero layout where there is none.
func readLayout(name string) (l layout, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("%s: %w: %w: %s", name, errLayout, err, remedy)
	}
	if l.Layout < 1 || l.Layout > layoutVersion {
		return l, fmt.Errorf("%s: layout %d, and this modproxy knows layouts up to %d: use the modproxy that wrote it, or a newer one",
			name, l.Layout, layoutVersion)
	}
	return l, nil
}

// errLayout: layout.json is not what was written.
var errLayout = errors.New("damaged")

// writeLayout is called with s.mu held.
func (s *Store) writeLayout(l layout) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := s.publish(s.path(layoutName), 0o600, text); err != nil {
		return err
	}
	s.layout = l
	return nil
}

// remedy is what to do about an index that is refused.
const remedy = `"modproxy rebuild" makes it anew from the records beside it; or put its backup back`

func (s *Store) refuse(format string, args ...any) error {
	return fmt.Errorf("%s: the index "+format+": "+remedy, append([]any{s.path(indexName)}, args...)...)
}
