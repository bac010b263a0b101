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

// Every error that a [Registry] returns wraps one of these sentinels, or is the error of a context that ended. Compare with
// [errors.Is].
var (
	ErrInvalid      = errors.New("invalid")         // the request, or the upstream's response, is malformed
	ErrUnauthorized = errors.New("unauthorized")    // the client is not identified
	ErrDenied       = errors.New("denied")          // a rule of this proxy, or the upstream, denies it
	ErrNotFound     = errors.New("not found")       // the upstream reported that it does not exist, or it is hidden from the client
	ErrChanged      = errors.New("content changed") // the content of a version differs from the content first served
	ErrUnavailable  = errors.New("unavailable")     // the upstream or the storage failed
)

// Error is an error with its operation and version. The first layer that knows the version makes it, with [Wrap].
type Error struct {
	Op  string // "versions", "location", "package", or an operation of a [Catalog], such as "details"
	Ref Ref    // without a version for "versions"
	Err error
}

// Wrap adds the operation and the version to err. It returns err unchanged if err is nil or already wraps an [Error].
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

// Permanent is an [ErrUnavailable] that does not end by itself. A retry cannot succeed.
type Permanent struct {
	Err error // what happened; not nil
}

func (e *Permanent) Error() string { return e.Err.Error() }

func (e *Permanent) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// Temporary is an [ErrUnavailable] that may end at any moment: a broken connection, or an overloaded server.
type Temporary struct {
	Err error // what happened; not nil
}

func (e *Temporary) Error() string { return e.Err.Error() }

func (e *Temporary) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// NotCached is an [ErrUnavailable] of a proxy that is offline: the requested version is not cached.
type NotCached struct {
	Ref       // without a version if no version of the module is cached
	Lost bool // it was cached in the past
}

func (e *NotCached) Error() string {
	what, wanted := "not cached", e.Address.String()
	if e.Lost {
		what = "no longer cached (evicted, removed or damaged)"
	}
	if platform, isArchive := e.Platform(); isArchive {
		wanted += "@" + e.Version + " --platform " + platform.String()
	} else if e.Version != "" {
		wanted += "@" + e.FullVersion()
	}
	return what + ", and modproxy is offline (operator: to get it, run on the connected side: modproxy mirror " + wanted + ")"
}

func (e *NotCached) Unwrap() error { return ErrUnavailable }

// NoSpace is an [ErrUnavailable] of storage that has no free space. Stored content is still served.
type NoSpace struct {
	Err    error // what happened; not nil
	Inodes bool  // no inode is free; there may be free bytes
}

// Error returns a message for clients. It does not contain file names.
func (e *NoSpace) Error() string {
	why := e.Err.Error()
	if file, ok := errors.AsType[*fs.PathError](e.Err); ok {
		why = strings.ReplaceAll(why, file.Error(), file.Op+": "+file.Err.Error())
	}
	switch {
	case errors.Is(e.Err, syscall.EROFS):
		return why // the text of EROFS is clear
	case e.Inodes:
		return "the file system has no free inode: " + why +
			` (operator: "df -i" shows inodes; "modproxy gc --max-size" or "modproxy rm" removes files)`
	case errors.Is(e.Err, syscall.ENOSPC):
		return "the disk is full: " + why + ` (operator: "modproxy gc --max-size" or "modproxy rm" makes room)`
	}
	return "no space: " + why
}

// Inside returns the error of the file system, with the file name, for operators.
func (e *NoSpace) Inside() string { return e.Err.Error() }

func (e *NoSpace) Unwrap() []error { return []error{e.Err, ErrUnavailable} }

// PermanentContent is an [ErrInvalid] about content that a commit or checksum identifies. A retry fails again, unless limits are
// changed.
type PermanentContent struct {
	Err error // what is wrong; not nil
}

func (e *PermanentContent) Error() string { return e.Err.Error() }

func (e *PermanentContent) Unwrap() []error { return []error{e.Err, ErrInvalid} }

// Ambiguous is an [ErrInvalid] about a version that its source names more than once, with different content: two tags of a repository,
// for example. A recorded version is served from its recorded source.
type Ambiguous struct {
	Err error // which names, and what differs; not nil
}

func (e *Ambiguous) Error() string { return e.Err.Error() }

func (e *Ambiguous) Unwrap() []error { return []error{e.Err, ErrInvalid} }

// FetchFailed is the last failure to download a package. Clients show only the status of a failed archive request. Therefore
// the next request for the location returns this error.
type FetchFailed struct {
	Time  time.Time // when the download failed
	Again time.Time // when modproxy retries
	Err   error     // why; not nil
}

func (e *FetchFailed) Error() string { return e.Err.Error() }

func (e *FetchFailed) Unwrap() error { return e.Err }

// Fault returns [ErrUnavailable] for a recovered panic. The error has the type of the panic's value and the place of the
// panic. It does not have the value, which may contain secrets and untrusted data. Call Fault in the deferred function
// itself.
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
			return "an unknown position"
		}
	}
}
