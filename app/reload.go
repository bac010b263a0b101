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
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/policy"
)

// rulesEvery is how often the files that rules come from are looked at. A change counts when they are found the same twice.
const rulesEvery = 500 * time.Millisecond

// seen has, by its name or pattern, what was in each of the files that rules come from before they were read.
type seen map[string]uint64

var seed = maphash.MakeSeed()

// look reads what is in the files that a pattern stands for. That is surer than the times of files, and not slower than a
// second look: rules have a megabyte or two at most.
func look(pattern string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	names, err := filepath.Glob(pattern)
	if !slices.Contains(names, pattern) { // it may be no pattern
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

// lookAt looks at each of the patterns.
func lookAt(patterns iter.Seq[string]) seen {
	now := seen{}
	for pattern := range patterns {
		now[pattern] = look(pattern)
	}
	return now
}

// rulesFrom is [rulesOf]. It is a variable for tests.
var rulesFrom = rulesOf

// errReplaced is that what rules were read from was replaced meanwhile, every time.
var errReplaced = fmt.Errorf("%w: the files of the policy were replaced while they were read", modproxy.ErrUnavailable)

// readRules reads the rules of c. known was looked at before. All that they come from is looked at afterwards: what was replaced
// meanwhile is read once more, and never counts. The file that c was read from is not read again here.
//
// Its error may be errReplaced, and rulesSeen is not what is there then.
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

// followRules reloads whenever there is something to receive, and the rules when one of the files has changed that they
// come from, until ctx ends.
func (a *App) followRules(ctx context.Context, reload <-chan os.Signal) {
	tick := time.NewTicker(rulesEvery)
	defer tick.Stop()
	last := a.rulesSeen
	for {
		select {
		case <-reload:
			a.reload()
			last = a.rulesSeen
		case <-tick.C:
			if a.tls != nil {
				a.tls.get() // which looks at its files, also while no client connects
			}
			now := lookAt(maps.Keys(a.rulesSeen))
			if !maps.Equal(now, a.rulesSeen) && maps.Equal(now, last) { // else nothing has changed, or something does just now
				a.reloadRules(false)
				now = a.rulesSeen
			}
			last = now
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the certificate and the rules of the policy again, unless there is an error in them. Tokens and keys are
// followed without being told.
func (a *App) reload() {
	if a.tls != nil {
		if err := a.tls.reload(); err != nil {
			logEvent(a.log, "reload_failed", fmt.Errorf("tls: %w", err))
		} else {
			logEvent(a.log, "reloaded", nil, zap.Strings("what", []string{"tls"}))
		}
	}
	a.reloadRules(true)
}

// reloadRules reads the rules of the policy again. Where there is an error in them, or elsewhere in the configuration, those
// in force stay. Keys besides that have changed count from the next start, as do the upstreams for the rules: they are
// logged when they are others than before, and when a person asks.
func (a *App) reloadRules(asked bool) {
	known := lookAt(maps.Keys(a.rulesSeen))
	next, changed, err := a.config.Reload()
	var rules *policy.Rules
	if err == nil {
		now, began := *next, a.config
		now.Upstreams, now.Routes, now.PublicURL, now.Listen, now.TLS = began.Upstreams, began.Routes, began.PublicURL, began.Listen, began.TLS
		rules, err = a.readRules(&now, known)
	} else {
		a.rulesSeen = known
	}
	if errors.Is(err, errReplaced) || !maps.Equal(lookAt(maps.Keys(a.rulesSeen)), a.rulesSeen) {
		return // what is there now is read when it was found twice
	}
	if err != nil {
		a.rulesErr.Store(&err)
		logEvent(a.log, "reload_failed", fmt.Errorf("the rules of the policy stay as they were: %w", err))
		return
	}
	a.rulesErr.Store(nil)
	a.use(rules)
	logEvent(a.log, "reloaded", nil, zap.Strings("what", []string{"policy"}), zap.Int("rules", len(rules.Rules)))
	changed = slices.DeleteFunc(changed, func(key string) bool { return key == "contact" || strings.HasPrefix(key, "policy.") })
	if len(changed) > 0 && (asked || !slices.Equal(changed, a.restartFor)) {
		logEvent(a.log, "restart_needed", nil, zap.Strings("keys", changed))
	}
	a.restartFor = changed
}

// rulesProblem returns why the rules in force are not those of the configuration, or nil.
func (a *App) rulesProblem() error {
	if err := a.rulesErr.Load(); err != nil {
		return *err
	}
	return nil
}
