package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
)

const usesPause = 5 * time.Minute // between two writes of uses

// New returns a Store of the storage in c. It reads nothing.
func New(c Config) *Store {
	s := &Store{Config: c, room: newRoom(c.MaxSize), work: flight.NewPool(0), started: time.Now()}
	s.memory = memory.NewBytes[modproxy.Digest](max(0, cmp.Or(c.Memory, 64<<20)))
	s.checked = newChecks(s.memory.Limit() / 8)
	s.loads.Pool, s.checks.Pool = s.work, s.work
	s.written = s.started
	return s
}

func (s *Store) observe(e Event) {
	if s.Observe != nil {
		s.Observe(e)
	}
}

// Start counts the stored blobs and evicts those that exceed MaxSize, in the background. It notifies Observe of blobs that no record
// needs, and of missing blobs that records need.
func (s *Store) Start() {
	s.background(func(ctx context.Context) error {
		_, err := s.Collect(ctx, Collection{MaxSize: s.MaxSize, OrphanAge: -1})
		if n := s.unrecorded; err == nil && n.Blobs > 0 {
			s.observe(Event{Kind: Unrecorded, Count: n.Blobs, Bytes: n.Bytes})
		}
		if err != nil {
			return err
		}
		n, err := s.missing(ctx)
		if n > 0 {
			s.observe(Event{Kind: Missing, Count: n})
		}
		return err
	})
}

// missing returns the number of missing blobs that records need, if the storage can list needed blobs without reading
// records. The blobs were counted before.
func (s *Store) missing(ctx context.Context) (n int, err error) {
	inspector, ok := s.Records.(Inspector)
	if !ok {
		return 0, nil
	}
	for d, err := range inspector.Needed(ctx) {
		if err != nil {
			return n, failure(ctx, err)
		}
		if s.room.has(d) {
			continue
		}
		if _, err := s.Blobs.Stat(ctx, d); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if by, err := s.Records.Needing(ctx, d); err == nil && len(by) > 0 { // else it was evicted meanwhile
			n++
		}
	}
	return n, nil
}

// Close ends background work and writes uses to the storage. Open readers continue.
func (s *Store) Close(ctx context.Context) error {
	s.work.Stop()
	s.work.End()
	if s.work.Wait(ctx) != nil {
		return ctx.Err()
	}
	return s.writeUses(ctx)
}

// background starts work that only Close ends and waits for. Its error is observed.
func (s *Store) background(work func(context.Context) error) {
	_ = s.work.Go("", func() { // after Close, nothing is left to do
		if err := recovered(func() error { return work(s.work.Context()) }); err != nil && s.work.Context().Err() == nil {
			s.observe(Event{Kind: StorageFailed, Err: err})
		}
	})
}

// recovered returns the error of work, or its panic as an error.
func recovered(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = modproxy.Fault(p)
		}
	}()
	return work()
}

// share does work once for all concurrent callers with the same blob. The work continues when ctx ends, until the Store
// is closed.
func (s *Store) share(
	ctx context.Context, group *flight.Group[modproxy.Digest, struct{}], d modproxy.Digest, work func(context.Context) error,
) error {
	call, err := group.Join(ctx, d, func(context.Context) (struct{}, error) { return struct{}{}, work(s.work.Context()) })
	if err != nil {
		return errClosed
	}
	if _, err = call.Wait(ctx); ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return errClosed
	}
	return err
}

var errClosed = &StorageError{errors.New("the store is being closed")}

// writeUsesSoon writes uses in the background if the last write is more than usesPause ago.
func (s *Store) writeUsesSoon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.written) > usesPause {
		s.written = time.Now()
		s.background(func(context.Context) error { return s.writeUses(context.Background()) })
	}
}

// writeUses writes the times of last use that changed since the last write.
func (s *Store) writeUses(ctx context.Context) error {
	s.room.mu.Lock()
	used := s.room.used
	s.room.used = map[modproxy.Digest]time.Time{}
	s.room.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := s.Blobs.Touch(ctx, used)
	if errors.Is(err, syscall.EROFS) {
		return nil // a read-only storage evicts nothing
	}
	return failure(ctx, err)
}
