package modproxy

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Every error that a [Registry] returns is one of these by [errors.Is], or the error of a context that ended.
var (
	ErrInvalid      = errors.New("invalid")         // the request, or what upstream answered, is not well formed
	ErrUnauthorized = errors.New("unauthorized")    // the client is not identified
	ErrDenied       = errors.New("denied")          // a rule of this proxy, or upstream, does not allow it
	ErrNotFound     = errors.New("not found")       // upstream said expressly that there is no such thing
	ErrChanged      = errors.New("content changed") // the content of a version is not what it was when first served
	ErrUnavailable  = errors.New("unavailable")     // upstream, or the storage, did not answer as it should
)

// Error adds the question to an error. The layer that first knows the version adds it, with [Wrap].
type Error struct {
	Op  string // "versions", "location", "package", or what a [Catalog] was asked
	Ref Ref    // without a version for "versions"
	Err error
}

// Wrap returns err as the answer to a question about v. It returns err itself if err is nil or has a question already.
func Wrap(op string, v Ref, err error) error {
	if _, named := errors.AsType[*Error](err); named || err == nil {
		return err
	}
	return &Error{op, v, err}
}

func (e *Error) Error() string { return e.Op + " " + e.Ref.Shown() + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// RetryLater is an [ErrUnavailable] that lasts until After.
type RetryLater struct {
	After time.Time
	Err   error // what happened; not nil
}

func (e *RetryLater) Error() string { return e.Err.Error() }

func (e *RetryLater) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// Lasting is an [ErrUnavailable] that does not pass by itself: it is no use to ask again.
type Lasting struct {
	Err error // what happened; not nil
}

func (e *Lasting) Error() string { return e.Err.Error() }

func (e *Lasting) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// Temporary is an [ErrUnavailable] that may end at any moment: a connection that broke, or a server that is overloaded.
type Temporary struct {
	Err error // what happened; not nil
}

func (e *Temporary) Error() string { return e.Err.Error() }

func (e *Temporary) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// NotKept is an [ErrUnavailable] of a proxy that is offline: what was asked for is not kept.
type NotKept struct {
	Ref       // without a version: no version of the module is kept
	Lost bool // it was kept once
}

func (e *NotKept) Error() string {
	what, wanted := "not kept", e.Address.String()
	if e.Lost {
		what = "no longer kept (evicted, removed or damaged)"
	}
	if platform, isArchive := e.Platform(); isArchive {
		wanted += "@" + e.Version + " --platform " + platform.String()
	} else if e.Version != "" {
		wanted += "@" + e.FullVersion()
	}
	return what + ", and modproxy is offline (operator: to get it, run on the connected side: modproxy mirror " + wanted + ")"
}

func (e *NotKept) Unwrap() error { return ErrUnavailable }

// NoSpace is an [ErrUnavailable] of storage that has no room for more. What it has is served.
type NoSpace struct {
	Err    error // what happened; not nil
	Inodes bool  // no inode is free, while there may be room for bytes
}

// Error returns a text for clients, which does not name files.
func (e *NoSpace) Error() string {
	why := e.Err.Error()
	if file, ok := errors.AsType[*fs.PathError](e.Err); ok {
		why = strings.ReplaceAll(why, file.Error(), file.Op+": "+file.Err.Error())
	}
	switch {
	case errors.Is(e.Err, syscall.EROFS):
		return why // which says so
	case e.Inodes:
		return "the file system has no free inode: " + why +
			` (operator: "df -i" shows inodes; "modproxy gc --max-size" or "modproxy rm" removes files)`
	case errors.Is(e.Err, syscall.ENOSPC):
		return "the disk is full: " + why + ` (operator: "modproxy gc --max-size" or "modproxy rm" makes room)`
	}
	return "no space: " + why
}

// Inside returns the text of the error of the file system, which names the file, for operators.
func (e *NoSpace) Inside() string { return e.Err.Error() }

func (e *NoSpace) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// Fixed is an [ErrInvalid] about content that a commit or checksum names. It stays, unless other limits are set.
type Fixed struct {
	Err error // what is wrong; not nil
}

func (e *Fixed) Error() string { return e.Err.Error() }

func (e *Fixed) Unwrap() []error { return []error{e.Err, ErrInvalid} }

// FetchFailed tells that a package could not be fetched when it was last tried. Clients show only the status of a failed
// archive request, so the next question for the location answers with it.
type FetchFailed struct {
	Time  time.Time // when the fetch failed
	Again time.Time // when it will be tried again
	Err   error     // why; not nil
}

func (e *FetchFailed) Error() string { return e.Err.Error() }

func (e *FetchFailed) Unwrap() error { return e.Err }

// Fault returns [ErrUnavailable] for a panic whose value was recovered. It has the value's type and where the panic
// was, but not the value, which may have secrets and what strangers sent. The deferred function itself calls it.
func Fault(recovered any) error {
	return fmt.Errorf("%w: a bug in modproxy, please report it: %T at %s", ErrUnavailable, recovered, panicked())
}

// panicked returns the file and line of the panic that is being recovered.
func panicked() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs[:])])
	found := false
	for {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			found = true
		case found && !strings.HasPrefix(frame.Function, "runtime."):
			return fmt.Sprintf("%s:%d", filepath.Base(frame.File), frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}
