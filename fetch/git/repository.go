package git

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// repository is one bare repository on disk, for one revision, with everything that git needs to fetch into it.
type repository struct {
	use     *use
	at      address
	top     string // the directory of all its files
	dir     string // GIT_DIR, in top
	trace   string // the file to which git writes the headers of answers, in top
	local   []string
	network []string // the environment of a git that connects
	limit   int64    // bytes
	refs    bool     // only its list of refs is requested

	basic   egress.Secret   // the Authorization for r.at; zero for none
	session *egress.Session // nil over ssh, and before git connects
	came    atomic.Int64    // bytes received without git
	secrets []string        // must not appear in messages
	mayPass bool            // the failure of the last connection may be temporary
}

// open makes a repository in a new directory, ready to fetch from a. It fails if the policy does not allow a.
func (u *use) open(ctx context.Context, a address, limit int64) (*repository, error) {
	if err := u.allow(ctx, a); err != nil {
		return nil, err
	}
	top, err := os.MkdirTemp(u.Dir, "git-")
	if err != nil {
		return nil, errUnavailable(err)
	}
	r := &repository{use: u, at: a, top: top, limit: limit}
	r.dir, r.trace = filepath.Join(top, "git"), filepath.Join(top, "trace")
	r.local = r.environment("", nil)
	err = errUnavailable(os.Mkdir(filepath.Join(top, "home"), 0o700))
	if err == nil && a.scheme == "ssh" {
		err = u.prepareSSH(ctx, r)
	}
	if shown := u.credentials.Of(a.hostPort()); a.scheme == "https" && !shown.Password.IsZero() {
		basic := base64.StdEncoding.EncodeToString([]byte(shown.Username + ":" + shown.Password.Reveal()))
		r.basic = egress.NewSecret("Basic " + basic)
		r.secrets = []string{shown.Password.Reveal(), basic}
	}
	if err != nil {
		_ = u.close(r)
		return nil, err
	}
	return r, nil
}

// allow returns an error for an address that the policy denies. It starts no process and resolves no name.
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

// prepareHTTP sets the environment of a git that connects to r.at.
func (u *use) prepareHTTP(r *repository) error {
	roots, err := rootsFile(r.top, u.CAFile)
	if err != nil {
		return fmt.Errorf("%w: root certificates: %w", modproxy.ErrUnavailable, err)
	}
	left := r.limit - r.came.Load()
	if left <= 0 {
		return r.tooLarge()
	}
	if r.session, err = u.Network.Session(left); err != nil {
		return fetch.Outgoing(err)
	}
	r.secrets = append(r.secrets, r.session.URL())
	settings := [][2]string{
		// git would send extraHeader to the target of a redirect. [redirected] follows redirects instead.
		{"http.followRedirects", "false"},
		{"http.lowSpeedLimit", "1"}, {"http.lowSpeedTime", "60"}, // a server that counts objects sends little
		{"http.sslVerify", "true"},
		{"http.proxy", r.session.URL()}, {"http.proxyAuthMethod", "basic"},
	}
	if roots != "" {
		settings = append(settings, [2]string{"http.sslCAInfo", roots})
	}
	if !r.basic.IsZero() {
		settings = append(settings, [2]string{"http." + r.at.origin() + "/.extraHeader",
			"Authorization: " + r.basic.Reveal()})
	}
	r.network = r.environment(r.at.scheme, settings,
		"GIT_TRACE_CURL="+r.trace, "GIT_TRACE_CURL_NO_DATA=1", "GIT_TRACE_REDACT=1")
	return nil
}

// received returns the received bytes. Bytes over ssh are not counted.
func (r *repository) received() int64 {
	came := r.came.Load()
	if r.session != nil {
		came += r.session.Received()
	}
	return came
}

// close removes all files of r, and counts the received bytes.
func (u *use) close(r *repository) (err error) {
	u.received += max(diskUse(r.dir), r.received())
	if r.session != nil {
		err = r.session.Close()
	}
	return errUnavailable(errors.Join(err, os.RemoveAll(r.top)))
}

// git returns a command that makes no connection.
func (r *repository) git(args ...string) command {
	return command{dir: r.top, env: r.local, args: args, cpu: r.use.limits.CPU}
}

// connect runs a git that may connect to r.at. It ends git when the repository, with the recorded headers, exceeds the
// limit, because git has no such limit of its own.
func (r *repository) connect(ctx context.Context, c command) error {
	if r.network == nil {
		if err := r.use.prepareHTTP(r); err != nil {
			return err
		}
	}
	c.dir, c.env = r.top, r.network
	_ = os.Remove(r.trace) // of earlier connections
	r.mayPass = false
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		counted := r.came.Load()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				use := diskUse(r.top)
				if came := max(use, r.received()); came > counted {
					meter.Add(came - counted)
					counted = came
				}
				if use > r.limit {
					stop(r.tooLarge())
				}
			}
		}
	}()
	if err := c.run(ctx); err != nil {
		return r.explain(err)
	}
	if diskUse(r.top) > r.limit {
		return r.tooLarge()
	}
	return nil
}

// diskUse returns the size of all files below dir. Files may appear and disappear meanwhile.
func diskUse(dir string) (n int64) {
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
