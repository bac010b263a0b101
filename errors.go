package modproxy

import (
	"errors"
	"syscall"
	"time"
)

// What can be wrong. Every error that a [Registry] returns is one of these by
// [errors.Is], or the error of a context that ended.
var (
	// ErrInvalid: the request, or what upstream answered, is not well formed.
	ErrInvalid = errors.New("invalid")
	// ErrUnauthorized: the one who asks is not known.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrDenied: a rule of this proxy, or upstream, does not allow it.
	ErrDenied = errors.New("denied")
	// ErrNotFound: upstream said, in so many words, that there is no such thing.
	ErrNotFound = errors.New("not found")
	// ErrChanged: the content of a version is not what it was when first served.
	ErrChanged = errors.New("content changed")
	// ErrUnavailable: upstream, or the storage, did not answer as it should.
	ErrUnavailable = errors.New("unavailable")
)

// Error says which question, about which module, met Err. One layer adds it,
// once: the one that first knows module and version.
type Error struct {
	Op      string // "versions", "location" or "package"
	Module  Module
	Version string // empty for versions
	Err     error
}

func (e *Error) Error() string {
	s := e.Op + " " + e.Module.String()
	if e.Version != "" {
		s += " " + e.Version
	}
	return s + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// RetryLater is an [ErrUnavailable] that is known to pass: asking again before
// After is in vain.
type RetryLater struct {
	After time.Time
	Err   error // what happened; not nil
}

func (e *RetryLater) Error() string { return e.Err.Error() }

func (e *RetryLater) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// Lasting is an [ErrUnavailable] that does not pass by itself: asking again, as
// clients do, is in vain.
type Lasting struct {
	Err error // what happened; not nil
}

func (e *Lasting) Error() string { return e.Err.Error() }

func (e *Lasting) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// NoSpace is an [ErrUnavailable] of the storage: it has no room for what is to be
// kept. What is kept is served all the same.
type NoSpace struct {
	Err error // what happened; not nil
}

func (e *NoSpace) Error() string {
	switch {
	case errors.Is(e.Err, syscall.EROFS):
		return e.Err.Error() // which says so
	case errors.Is(e.Err, syscall.ENOSPC):
		return "the disk is full: " + e.Err.Error() + `; "modproxy gc --max-size" or "modproxy rm" makes room`
	}
	return "no space: " + e.Err.Error()
}

func (e *NoSpace) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// Fixed is an [ErrInvalid] about content that cannot become another: what is fetched
// is named by its commit or checksum. Fetching it again gives the same error, unless
// other limits are set.
type Fixed struct {
	Err error // what is wrong; not nil
}

func (e *Fixed) Error() string { return e.Err.Error() }

func (e *Fixed) Unwrap() []error { return []error{e.Err, ErrInvalid} }

// FetchFailed tells that a package could not be fetched when it was last tried.
// Clients show nothing of a failed archive request but its status, so the next
// question for the location answers with it.
type FetchFailed struct {
	Time  time.Time // when the fetch failed
	Again time.Time // when it will be tried again
	Err   error     // why; not nil
}

func (e *FetchFailed) Error() string { return e.Err.Error() }

func (e *FetchFailed) Unwrap() error { return e.Err }
