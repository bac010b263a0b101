package git

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// repository is one bare repository on disk, made for one revision, and what git needs to fetch into it.
type repository struct {
	at      address
	top     string // what is on disk for it
	dir     string // GIT_DIR, in top
	local   []string
	network []string // the environment of a git that connects
	limit   int64    // bytes

	session       Session
	hasCredential bool
	secrets       []string // what must not be shown
	trace         string   // file; empty for ssh
}

// open makes a repository in a new directory, ready to fetch from a. Nothing is started if the policy does not
// allow a.
func (u *use) open(ctx context.Context, a address, limit int64) (*repository, error) {
	if err := u.allow(ctx, a); err != nil {
		return nil, err
	}
	top, err := os.MkdirTemp(u.dir, "repository-")
	if err != nil {
		return nil, errUnavailable(err)
	}
	r := &repository{at: a, top: top, dir: filepath.Join(top, "git"), limit: limit, session: direct{}}
	home := filepath.Join(top, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, errUnavailable(err)
	}
	r.local = environment(r.dir, home, nil, nil)
	if a.scheme == "ssh" {
		err = u.prepareSSH(ctx, r, home)
	} else {
		err = u.prepareHTTP(r, home)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// allow returns an error for an address that the policy refuses. It starts and resolves nothing.
func (u *use) allow(ctx context.Context, a address) error {
	if a.scheme == "ssh" {
		_, err := u.identity(a)
		return err
	}
	at, err := url.Parse(a.String())
	if err == nil {
		err = u.Network.Check(ctx, at)
	}
	return fetch.Outgoing(err)
}

func (u *use) prepareSSH(ctx context.Context, r *repository, home string) error {
	line, err := u.sshCommand(ctx, r.at)
	if err != nil {
		return err
	}
	r.network = environment(r.dir, home, []string{"ssh"}, nil, "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND="+line)
	return nil
}

func (u *use) prepareHTTP(r *repository, home string) (err error) {
	protocols := []string{"https"}
	if r.at.scheme == "http" {
		protocols = append(protocols, "http")
	}
	var s settings
	// git would take extraHeader along to wherever a redirect leads: redirects are followed by [redirected], each
	// hop as an address of its own.
	s.add("http.followRedirects", "false")
	s.add("http.lowSpeedLimit", "1") // a server that is counting objects sends little, but something
	s.add("http.lowSpeedTime", "60")
	s.add("http.sslVerify", "true")
	roots, err := rootsFile(r.top, u.CAFile)
	if err != nil {
		return fmt.Errorf("%w: root certificates: %w", modproxy.ErrUnavailable, err)
	}
	if roots != "" {
		s.add("http.sslCAInfo", roots)
	}
	if host, ok := strings.CutPrefix(r.at.origin(), "https://"); ok {
		shown := u.credentials.Of(host)
		if r.hasCredential = !shown.Password.IsZero(); r.hasCredential {
			basic := base64.StdEncoding.EncodeToString([]byte(shown.Username + ":" + shown.Password.Reveal()))
			s.add("http."+r.at.origin()+"/.extraHeader", "Authorization: Basic "+basic)
			r.secrets = append(r.secrets, shown.Password.Reveal(), basic)
		}
	}
	session, err := u.Network.Session(r.limit)
	if err != nil {
		return fetch.Outgoing(err)
	}
	r.session = session
	s.add("http.proxy", session.URL())
	s.add("http.proxyAuthMethod", "basic")
	r.secrets = append(r.secrets, session.URL())
	r.trace = filepath.Join(r.top, "trace")
	r.network = environment(r.dir, home, protocols, s,
		"GIT_TRACE_CURL="+r.trace, "GIT_TRACE_CURL_NO_DATA=1", "GIT_TRACE_REDACT=1")
	return nil
}

// close removes what open made.
func (r *repository) close() error {
	return errors.Join(r.session.Close(), os.RemoveAll(r.top))
}

// received returns how many bytes came in, as far as can be told.
func (r *repository) received() int64 {
	return max(diskUse(r.dir), r.session.Received())
}

// read runs a git that connects to nothing.
func (r *repository) read(ctx context.Context, c command) error {
	c.dir, c.env = r.top, r.local
	return c.run(ctx)
}

// output runs a git that connects to nothing, and returns what it prints, which is an error beyond limit bytes.
func (r *repository) output(ctx context.Context, c command, limit int) (string, error) {
	var printed []byte
	c.stdout = func(stdout io.Reader) (err error) {
		if printed, err = io.ReadAll(io.LimitReader(stdout, int64(limit)+1)); len(printed) > limit {
			return invalid("git %s prints more than %d bytes", c.args[0], limit)
		}
		return errUnavailable(err)
	}
	err := r.read(ctx, c)
	return string(printed), err
}

// connect runs a git that may connect to r.at, and ends it when the repository, with what git notes of the answers,
// outgrows its limit: git has no such limit of its own.
func (r *repository) connect(ctx context.Context, c command) error {
	c.dir, c.env = r.top, r.network
	if r.trace != "" {
		_ = os.Remove(r.trace) // none if nothing was connected to
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		var counted int64
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				use := diskUse(r.top)
				if came := max(use, r.session.Received()); came > counted {
					meter.Add(came - counted)
					counted = came
				}
				if use > r.limit {
					stop(tooLarge(r.limit))
					return
				}
			}
		}
	}()
	if err := c.run(ctx); err != nil {
		return err
	}
	if diskUse(r.top) > r.limit {
		return tooLarge(r.limit)
	}
	return nil
}

// diskUse returns the size of all files below dir. Files come and go under it.
func diskUse(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
