package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/tfconfig"
)

// mirrors has the results of the mirrors of the configuration.
type mirrors struct {
	mu     sync.Mutex
	failed map[string]error // by the name of the mirror: why its last run was not complete, or nil
}

// maxMirrorProblems is the maximum number of logged problems for one run of a mirror.
const maxMirrorProblems = 20

// runMirrors runs the mirrors of the configuration, each in its interval, until ctx ends. It does nothing if the proxy is offline
// or its data is read-only.
func (a *App) runMirrors(ctx context.Context) {
	if a.Cache.Next == nil || a.ReadOnly() != nil {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, m := range a.config.Mirror {
		all.Go(func() {
			for ctx.Err() == nil {
				a.mirror(ctx, m)
				select {
				case <-time.After(m.Interval()):
				case <-ctx.Done():
				}
			}
		})
	}
}

// mirror runs one mirror once. It logs the result and counts it in the metrics.
func (a *App) mirror(ctx context.Context, m config.Mirror) {
	began := time.Now()
	problems, logged := 0, 0
	warn := func(name, text string) {
		if logged++; logged <= maxMirrorProblems {
			logEvent(a.log, name, nil, zap.String("mirror", m.Name()), zap.String("problem", text))
		}
	}
	in, wrong, err := a.mirrorRequest(ctx, m)
	for _, p := range wrong {
		problems++
		warn("mirror_problem", p.String())
	}
	var done mirror.Progress
	if err == nil {
		done, err = admin.MirrorFetch.Call(ctx, admin.Inside(a.api()), in, func(line mirror.Line) error {
			if n := line.Bypass; n != nil {
				warn("mirror_bypassed", n.String())
			} else if n := line.Problem; n != nil {
				warn("mirror_problem", n.String())
			}
			return nil
		})
	}
	if ctx.Err() != nil { // the proxy shuts down
		return
	}
	if problems += done.Problems; err != nil {
		problems++
	}
	logOutcome(a.log, "mirrored", problems > 0, zap.String("mirror", m.Name()),
		zap.Int("fetched", done.Fetched), zap.Int64("bytes", done.Bytes),
		zap.Int("kept", done.Kept), zap.Int("bypassed", done.Bypasses), zap.Int("problems", problems),
		zap.Float64("seconds", time.Since(began).Seconds()), errorField(err))
	a.metrics.Mirrored(m.Name(), problems)
	if err == nil && problems > 0 {
		err = fmt.Errorf("problems: %d, see the log", problems)
	}
	a.mirrors.mu.Lock()
	defer a.mirrors.mu.Unlock()
	if a.mirrors.failed == nil {
		a.mirrors.failed = map[string]error{}
	}
	a.mirrors.failed[m.Name()] = err
}

// mirrorRequest reads the directory, the lock file or the list of a mirror. wrong are problems of the configuration in the
// directory. The request has the other calls.
func (a *App) mirrorRequest(ctx context.Context, m config.Mirror) (in mirror.Request, wrong []tfconfig.Problem, err error) {
	roots := closure.Roots{}
	in.Providers, in.Platforms = true, Platforms(m.Platforms, a.config.Providers.Platforms)
	switch {
	case m.Dir != "":
		roots.Dirs = []string{m.Dir}
		if roots.Clients = ParseClient(m.Client); roots.Clients == nil {
			roots.Clients, _ = ClientsOf(m.Dir, func() (tfconfig.Client, error) {
				return admin.ClientsUsual.Call(ctx, admin.Inside(a.api()), struct{}{}, nil)
			})
		}
		in.Starts, wrong, err = roots.Starts(ctx, tfconfig.NewReader(nil, 0))
	case m.Lock != "":
		in.Locked, err = mirror.ReadLockFile(m.Lock)
	default:
		var named []closure.Start
		named, err = listOf(a.config, m)
		in.Starts = roots.Named(named...)
	}
	return in, wrong, err
}

// Platforms returns the platforms for which packages of providers are mirrored: the first list that is not empty, or else the
// platform of this machine.
func Platforms(set ...[]config.Platform) (all []modproxy.Platform) {
	for _, some := range set {
		for _, p := range some {
			all = append(all, p.Platform)
		}
		if len(all) > 0 {
			return all
		}
	}
	return []modproxy.Platform{{OS: runtime.GOOS, Arch: runtime.GOARCH}}
}

// listOf reads the list of a mirror.
func listOf(c *config.Config, m config.Mirror) ([]closure.Start, error) {
	text, err := durable.ReadRegular(m.List, mirror.MaxListSize)
	if err != nil {
		return nil, err
	}
	return mirror.ParseList(m.List, string(text), c.DefaultHost())
}

// CheckMirrors returns a [config.Error] that names each directory, list and lock file of the mirrors that cannot be read, or nil.
// It returns nil if c is offline, because mirrors do not run then.
func CheckMirrors(c *config.Config) error {
	if c.Offline {
		return nil
	}
	var wrong config.Error
	for i, m := range c.Mirror {
		var err error
		at := fmt.Sprintf("mirror[%d].", i)
		switch {
		case m.Dir != "":
			at += "dir"
			_, err = os.ReadDir(m.Dir)
		case m.Lock != "":
			at += "lock"
			_, err = mirror.ReadLockFile(m.Lock)
		default:
			at += "list"
			_, err = listOf(c, m)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %s: %w", c.Source(at), at, err))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// problem returns an error that names the mirrors whose last run was not complete, or nil.
func (m *mirrors) problem(of []config.Mirror) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var texts []string
	for _, one := range of {
		if err := m.failed[one.Name()]; err != nil {
			texts = append(texts, one.Name()+": "+err.Error())
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}
