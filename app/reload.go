package app

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/policy"
)

// rulesEvery is the interval in which the files of the rules are read. A change counts when two reads return the same content.
const rulesEvery = 500 * time.Millisecond

// seen maps the names and patterns of the files of the rules to hashes of their content before the rules were read.
type seen map[string]uint64

var seed = maphash.MakeSeed()

// look returns a hash of the names and the content of the files that a pattern matches. The content is more reliable than the
// times of the files, and quick to read: rules have a few megabytes at most.
func look(pattern string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	names, err := filepath.Glob(pattern)
	if !slices.Contains(names, pattern) { // the pattern may be a name with special characters
		names = append(names, pattern)
	}
	fmt.Fprintln(&h, names, err)
	for _, name := range names {
		text, err := durable.ReadRegular(name, lock.MaxSize)
		fmt.Fprintln(&h, len(text), err)
		h.Write(text)
	}
	return h.Sum64()
}

// lookAt calls look for each pattern.
func lookAt(patterns iter.Seq[string]) seen {
	now := seen{}
	for pattern := range patterns {
		now[pattern] = look(pattern)
	}
	return now
}

// rulesFrom is [rulesOf]. It is a variable for tests.
var rulesFrom = rulesOf

// errReplaced is the error if the files of the rules were replaced during each attempt to read them.
var errReplaced = fmt.Errorf("%w: the files of the policy were replaced while they were read", modproxy.ErrUnavailable)

// readRules reads the rules of c. known has the hashes of their files before the call. After reading, readRules hashes the files
// again. If a file was replaced in the meantime, it reads the rules again and does not use the first ones. It does not read the
// file of c again.
//
// The error may be errReplaced. Then rulesSeen does not have the current content of the files.
func (a *App) readRules(c *config.Config, known seen) (rules *policy.Rules, err error) {
	for range 3 {
		var paths []string
		rules, paths, err = rulesFrom(c)
		now := lookAt(slices.Values(paths))
		a.rulesSeen = seen{}
		complete := true
		for path, is := range now {
			was, ok := known[path]
			a.rulesSeen[path] = was
			if ok && path == c.File() {
				continue
			}
			complete = complete && ok && was == is
			known[path] = is
		}
		if complete {
			return rules, err
		}
	}
	return nil, errReplaced
}

// followRules reloads the certificate and the rules when it receives from reload, and the rules when one of their files has
// changed. It returns when ctx ends.
func (a *App) followRules(ctx context.Context, reload <-chan os.Signal) {
	tick := time.NewTicker(rulesEvery)
	defer tick.Stop()
	last := a.rulesSeen
	for {
		select {
		case <-reload:
			a.reload()
			last = a.rulesSeen
		case answer := <-a.reloads:
			answer <- a.reload()
			last = a.rulesSeen
		case <-tick.C:
			if a.tls != nil {
				a.tls.get() // reads its files, even if no client connects
			}
			now := lookAt(maps.Keys(a.rulesSeen))
			if !maps.Equal(now, a.rulesSeen) && maps.Equal(now, last) { // a change that is stable since the last tick
				a.reloadRules(false)
				now = a.rulesSeen
			}
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// reloadResult is the result of a reload. Its error has all mistakes.
type reloadResult struct {
	admin.Reloaded
	err error
}

// reload reads the certificate and the rules of the policy again. If they have an error, the ones in use stay. Tokens and keys
// follow their files without reload.
func (a *App) reload() (out reloadResult) {
	if a.tls != nil {
		if out.err = a.tls.reload(); out.err != nil {
			out.err = fmt.Errorf("tls: %w", out.err)
			logEvent(a.log, "reload_failed", out.err)
		} else {
			logEvent(a.log, "reloaded", nil, zap.Strings("what", []string{"tls"}))
			out.Reloaded.Reloaded = append(out.Reloaded.Reloaded, "tls")
		}
	}
	if err := a.reloadRules(true); err != nil {
		out.err = errors.Join(out.err, err)
	} else {
		out.Reloaded.Reloaded = append(out.Reloaded.Reloaded, "policy")
	}
	out.Rules, out.Restart = len(a.gate.Rules().Rules), a.restartFor
	return out
}

// reloadRules reads the rules of the policy again. If the configuration has an error, the rules in force stay. Other changed keys
// count from the next start, including the upstreams that rules refer to. reloadRules logs the names of these keys if they differ
// from the last time, or if asked is set, for an operator's signal. It returns why the rules in force are not replaced, or nil.
func (a *App) reloadRules(asked bool) error {
	known := lookAt(maps.Keys(a.rulesSeen))
	next, changed, err := a.config.Reload()
	var rules *policy.Rules
	if err == nil {
		now, began := *next, a.config
		now.Upstreams, now.Routes, now.PublicURL, now.Listen, now.TLS = began.Upstreams, began.Routes, began.PublicURL, began.Listen, began.TLS
		now.Modules, now.ModulesHost = began.Modules, began.ModulesHost
		rules, err = a.readRules(&now, known)
	} else {
		a.rulesSeen = known
	}
	if errors.Is(err, errReplaced) || !maps.Equal(lookAt(maps.Keys(a.rulesSeen)), a.rulesSeen) {
		return errReplaced // the files are changing: the next ticks read them
	}
	if err != nil {
		a.rulesErr.Store(&err)
		err = fmt.Errorf("the rules in force stay: %w", err)
		logEvent(a.log, "reload_failed", err)
		return err
	}
	a.rulesErr.Store(nil)
	a.use(rules)
	a.inForce.Store(a.config.WithPolicyOf(next))
	logEvent(a.log, "reloaded", nil, zap.Strings("what", []string{"policy"}), zap.Int("rules", len(rules.Rules)))
	changed = slices.DeleteFunc(changed, func(key string) bool { return key == "contact" || strings.HasPrefix(key, "policy.") })
	if len(changed) > 0 && (asked || !slices.Equal(changed, a.restartFor)) {
		logEvent(a.log, "restart_needed", nil, zap.Strings("keys", changed))
	}
	a.restartFor = changed
	return nil
}

// rulesProblem returns why the rules in force are not those of the configuration, or nil.
func (a *App) rulesProblem() error {
	if err := a.rulesErr.Load(); err != nil {
		return *err
	}
	return nil
}
