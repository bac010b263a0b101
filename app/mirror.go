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
	"github.com/modproxy/modproxy/tfconfig"
)

// mirrors are what the proxy mirrors by itself.
type mirrors struct {
	mu     sync.Mutex
	failed map[string]error // by what is mirrored: why the last time was not complete
}

// maxMirrorProblems bounds how many problems of one mirror are logged each time.
const maxMirrorProblems = 20

// runMirrors mirrors what the configuration says, over and over until ctx ends. A proxy that cannot fetch does not.
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

// mirror mirrors once.
func (a *App) mirror(ctx context.Context, m config.Mirror) {
	began := time.Now()
	problems, logged := 0, 0
	tell := func(entry, text string) {
		if logged++; logged <= maxMirrorProblems {
			a.log.Warn(entry, zap.String("mirror", m.Name()), zap.String("problem", text))
		}
	}
	in, wrong, err := a.wanted(ctx, m)
	for _, p := range wrong {
		problems++
		tell("mirror_problem", p.String())
	}
	var done admin.Mirrored
	if err == nil {
		done, err = admin.MirrorFetch.Ask(ctx, admin.Inside(a.api()), in, func(line admin.MirrorLine) error {
			if n := line.Bypass; n != nil {
				tell("mirror_bypassed", n.String())
			} else if n := line.Problem; n != nil {
				tell("mirror_problem", n.String())
			}
			return nil
		})
	}
	if ctx.Err() != nil { // the proxy ends
		return
	}
	if problems += done.Problems; err != nil {
		problems++
	}
	level := zap.InfoLevel
	if problems > 0 {
		level = zap.WarnLevel
	}
	a.log.Log(level, "mirrored", zap.String("mirror", m.Name()),
		zap.Int("fetched", done.Fetched), zap.Int64("bytes", done.Bytes),
		zap.Int("kept", done.Kept), zap.Int("bypassed", done.Bypasses), zap.Int("problems", problems),
		zap.Float64("seconds", time.Since(began).Seconds()), errorField(err))
	a.metrics.Mirrored(m.Name(), problems)
	if err == nil && problems > 0 {
		err = fmt.Errorf("problems: %d, which the log has", problems)
	}
	a.mirrors.mu.Lock()
	defer a.mirrors.mu.Unlock()
	if a.mirrors.failed == nil {
		a.mirrors.failed = map[string]error{}
	}
	a.mirrors.failed[m.Name()] = err
}

// wanted reads what a mirror is of.
func (a *App) wanted(ctx context.Context, m config.Mirror) (in admin.Mirror, wrong []tfconfig.Problem, err error) {
	roots := closure.Roots{}
	in.Providers, in.Platforms = true, Platforms(m.Platforms, a.config.Providers.Platforms)
	switch {
	case m.Dir != "":
		roots.Dirs = []string{m.Dir}
		if roots.Clients = ParseClient(m.Client); roots.Clients == nil {
			roots.Clients, _ = ClientsOf(m.Dir, func() (tfconfig.Client, error) {
				return admin.ClientsUsual.Ask(ctx, admin.Inside(a.api()), struct{}{}, nil)
			})
		}
		in.Starts, wrong, err = roots.Starts(ctx, new(tfconfig.Reader))
	case m.Lock != "":
		in.Locked, err = ReadLock(m.Lock)
	default:
		var named []closure.Start
		named, err = listOf(a.config, m)
		in.Starts = roots.Named(named...)
	}
	return in, wrong, err
}

// Platforms returns those for which packages of providers are mirrored: what is set, or the one of this machine.
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
	text, err := durable.ReadRegular(m.List, MaxList)
	if err != nil {
		return nil, err
	}
	return ParseList(m.List, string(text), c.DefaultHost())
}

// CheckMirrors returns an error that names each directory, list and lock file of the mirrors that cannot be read, or nil.
// Offline nothing is mirrored. Its error is a [config.Error].
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
			_, err = ReadLock(m.Lock)
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

// problem returns what the mirrors were not complete for the last time, or nil.
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
