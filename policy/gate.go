package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
)

// Ledger provides the decisions of operators, and the records of versions.
type Ledger interface {
	// Lookup returns the record that counts for a version. Its error is [fs.ErrNotExist] if no record exists.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	// Decisions returns the decisions after a position, in the order in which they were made, and the position of the
	// next one. The first decision has position zero.
	Decisions(ctx context.Context, from int64) (list []modproxy.Decision, next int64, err error)
}

// FirstSeen provides the times at which versions were first listed.
type FirstSeen interface {
	// Of returns the first-seen times of a module, without regard to case. The zero FirstSeen, with a nil error, is a
	// valid answer.
	Of(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error)
	// See records the versions of a document that have no first-seen time yet. Versions that cannot be recorded stay
	// unknown.
	See(ctx context.Context, m modproxy.Address, v *modproxy.Versions)
}

// Gate makes the verdicts. It is safe for concurrent use. [NewGate] makes one.
type Gate struct {
	Ledger    Ledger
	FirstSeen FirstSeen // set before the first verdict; if nil, the age of every version is unknown

	state     atomic.Pointer[state]
	replacing sync.Mutex // held while state is replaced
	began     time.Time
	read      atomic.Int64 // time of the last read of decisions, since began; zero if they were never read

	following chan struct{} // has an element while decisions are read: a mutex whose wait ends with a context
	next      int64         // position of the next decision; guarded by following
}

// state contains the inputs of verdicts. It is immutable.
type state struct {
	rules      *Rules
	decisions  *decisions
	selections memory.Cache[selectionKey, *Selection]
	lists      memory.Cache[listKey, list]
}

type selectionKey struct {
	module modproxy.Address
	groups string
}

const (
	rereadAfter   = time.Second     // age at which decisions are read again
	rereadWithin  = 5 * time.Second // timeout of such a read
	maxSelections = 16 << 10
	maxLists      = 256
)

// NewGate returns a Gate that follows the decisions in l, and whose rules allow everything until [Gate.Use].
func NewGate(l Ledger, s FirstSeen) *Gate {
	g := &Gate{Ledger: l, FirstSeen: s, following: make(chan struct{}, 1), began: time.Now()}
	open, _ := Compile(Config{})
	g.state.Store(newState(open, new(decisions)))
	return g
}

func newState(rules *Rules, all *decisions) *state {
	return &state{
		rules: rules, decisions: all,
		selections: memory.Cache[selectionKey, *Selection]{Max: maxSelections}, lists: memory.Cache[listKey, list]{Max: maxLists},
	}
}

// Use replaces the rules for all later verdicts.
func (g *Gate) Use(rules *Rules) {
	g.replace(func(was *state) *state { return newState(rules, was.decisions) })
}

// replace replaces the state by the result of change.
func (g *Gate) replace(change func(was *state) *state) {
	g.replacing.Lock()
	defer g.replacing.Unlock()
	g.state.Store(change(g.state.Load()))
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules {
	return g.state.Load().rules
}

// Reserved returns a [*Refusal] if the rules reserve a namespace for hosts other than this one, else nil. The mode of
// the rules does not change that, because a request that was sent cannot be undone. The code that sends requests, below
// every layer, calls it.
func (g *Gate) Reserved(host, namespace string) error {
	rules := g.Rules()
	reserve := rules.reserved(host, namespace)
	if reserve == nil {
		return nil
	}
	m := modproxy.Address{Host: host, Namespace: namespace}
	return &Refusal{reserve.verdict(), m.At(""), rules.Contact}
}

// ReservedIn is like Reserved, for the namespaces that a text names, such as the text of a search.
func (g *Gate) ReservedIn(host, text string) error {
	rules := g.Rules()
	reserve := rules.reservedIn(host, text)
	if reserve == nil {
		return nil
	}
	m := modproxy.Address{Host: host, Namespace: reserve.Namespace}
	return &Refusal{reserve.verdict(), m.At(""), rules.Contact}
}

// Follow reads the decisions that were made since its last call. Verdicts call it if the last read is more than a
// second old. Code that makes a decision calls it as well. After an error, the decisions that were read earlier count.
func (g *Gate) Follow(ctx context.Context) error {
	select {
	case g.following <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.following }()
	more, next, err := g.Ledger.Decisions(ctx, g.next)
	if err != nil {
		return err
	}
	if len(more) > 0 {
		g.replace(func(was *state) *state { return newState(was.rules, was.decisions.with(more)) })
	}
	g.next = next
	g.read.Store(g.elapsed())
	return nil
}

// elapsed returns the time since g began, at least 1. Changes of the wall clock do not affect it.
func (g *Gate) elapsed() int64 { return max(1, int64(time.Since(g.began))) }

// now returns the state in force.
func (g *Gate) now(ctx context.Context) (*state, error) {
	last, now := g.read.Load(), g.elapsed()
	switch {
	case last == 0:
		if err := g.Follow(ctx); err != nil {
			return nil, fmt.Errorf("%w: policy: the decisions cannot be read: %w", modproxy.ErrUnavailable, err)
		}
	case now-last > int64(rereadAfter) && g.read.CompareAndSwap(last, now):
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadWithin)
		defer cancel()
		_ = g.Follow(ctx) // the decisions that were read earlier count; the ledger reports its own failures
	}
	return g.state.Load(), nil
}

// idle reports whether everything is allowed.
func (s *state) idle() bool { return s.rules.trivial && s.decisions.made == 0 }

// of returns the rules for a module and the client of ctx, or nil if everything is allowed.
func (s *state) of(ctx context.Context, m modproxy.Address) *Selection {
	if s.idle() {
		return nil
	}
	return s.selection(m, modproxy.ClientOf(ctx).Groups)
}

// ofVersion is like of, for a version. Requests for nested sources carry no groups.
func (s *state) ofVersion(ctx context.Context, v modproxy.Ref) *Selection {
	if v.Variant.Kind == modproxy.NestedVariant && !s.idle() {
		return s.rules.forAnybody(v.Address)
	}
	return s.of(ctx, v.Address)
}

func (s *state) selection(m modproxy.Address, groups []string) *Selection {
	key := selectionKey{module: m}
	for _, group := range groups {
		key.groups += strconv.Itoa(len(group)) + ":" + group
	}
	if known, ok := s.selections.Get(key); ok {
		return known
	}
	made := s.rules.For(m, groups)
	s.selections.Add(key, made, memory.Forever, 0)
	return made
}

// Decide returns the verdict about a version for the client of ctx. If the version is empty, Decide returns the verdict
// about the module, which is denied if every version is. The mode of the rules does not change the verdict.
//
// Errors: [modproxy.ErrInvalid] for an invalid version; [modproxy.ErrUnavailable] if data that the verdict needs cannot
// be read.
func (g *Gate) Decide(ctx context.Context, v modproxy.Ref) (Verdict, error) {
	s, err := g.now(ctx)
	if err != nil || s.idle() {
		return Verdict{Outcome: Allowed}, err
	}
	return g.decideIn(ctx, s, s.of(ctx, v.Address), v, "", g.FirstSeen)
}

// NeedsAge reports whether verdicts about versions of m, for the client of ctx, depend on their age.
func (g *Gate) NeedsAge(ctx context.Context, m modproxy.Address) bool {
	s, err := g.now(ctx)
	if err != nil || g.FirstSeen == nil {
		return false
	}
	sel := s.of(ctx, m)
	return sel != nil && sel.needsAge() && !sel.Module().Refused()
}

// Check returns an error if a version, or a module as a whole, is refused for every client. Code that requests upstream
// data without a client calls it. In audit mode it refuses only namespaces that are [Reserved].
//
// Errors: [*Refusal]; those of Decide.
func (g *Gate) Check(ctx context.Context, v modproxy.Ref) error {
	return g.check(ctx, v, g.FirstSeen, func(s *state) *Selection { return s.rules.forAnybody(v.Address) })
}

// CheckFetch is like Check, before a download. A version that waits for approval may be downloaded for review.
func (g *Gate) CheckFetch(ctx context.Context, v modproxy.Ref) error {
	err := g.Check(ctx, v)
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Outcome == Unapproved {
		return nil
	}
	return err
}

// CheckClient is like Check, for the client of ctx.
func (g *Gate) CheckClient(ctx context.Context, v modproxy.Ref) error {
	return g.CheckClientBy(ctx, v, g.FirstSeen)
}

// CheckNamespace returns an error if the client of ctx is denied every possible module of a namespace. Only decisions
// about all modules of the namespace count. The error of a denied namespace is [modproxy.ErrDenied].
func (g *Gate) CheckNamespace(ctx context.Context, host, namespace string) error {
	s, err := g.now(ctx)
	if err != nil || s.idle() {
		return err
	}
	every := modproxy.Address{Host: host, Namespace: namespace, Name: "*", System: "*"}
	verdict := s.rules.namespace(host, namespace, modproxy.ClientOf(ctx).Groups)
	if block := s.decisions.about(every).blocked(); block != nil && verdict.Outcome != Reserved {
		verdict = Verdict{Outcome: Blocked, Decision: block}
	}
	if !verdict.Refused() || s.rules.Audit && verdict.Outcome != Reserved {
		return nil
	}
	return &Refusal{verdict, modproxy.Address{Host: host, Namespace: namespace}.At(""), s.rules.Contact}
}

// CheckClientBy is like CheckClient, with other first-seen times than those of the gate: times that may be wrong, or
// that come without a request to a registry.
func (g *Gate) CheckClientBy(ctx context.Context, v modproxy.Ref, firstSeen FirstSeen) error {
	return g.check(ctx, v, firstSeen, func(s *state) *Selection { return s.of(ctx, v.Address) })
}

func (g *Gate) check(ctx context.Context, v modproxy.Ref, firstSeen FirstSeen, by func(*state) *Selection) error {
	s, err := g.now(ctx)
	if err != nil || s.idle() {
		return err
	}
	verdict, err := g.decideIn(ctx, s, by(s), v, "", firstSeen)
	switch {
	case s.rules.Audit && verdict.Outcome != Reserved:
		return nil
	case err == nil && verdict.Refused():
		return &Refusal{verdict, v, s.rules.Contact}
	}
	return err
}

// decideIn returns the verdict about a version of the module of sel. The verdict also holds for variants of the version.
// content is the sum of the version if it is known better than from the ledger. firstSeen may be nil.
func (g *Gate) decideIn(
	ctx context.Context, s *state, sel *Selection, v modproxy.Ref, content modproxy.Sum, firstSeen FirstSeen,
) (Verdict, error) {
	if !v.IsListed() {
		content = "" // content is the sum of a variant
	}
	v = v.Base()
	if v.Version == "" {
		block := s.decisions.about(v.Address).blocked()
		if verdict := sel.Module(); block == nil || verdict.Outcome == Reserved {
			return verdict, nil
		}
		return Verdict{Outcome: Blocked, Decision: block}, nil
	}
	version, err := modproxy.ParseVersion(v.Version)
	if err != nil {
		return Verdict{}, err
	}
	e := g.newEvaluator(ctx, s, sel, firstSeen)
	e.version = v.Version
	return e.verdict(version, content)
}

// see records the versions of a document, because the document may have been cached before first-seen times were
// recorded.
func (g *Gate) see(ctx context.Context, m modproxy.Address, v *modproxy.Versions) {
	if g.FirstSeen != nil {
		g.FirstSeen.See(ctx, m, v)
	}
}

// evaluator makes the verdicts about the versions of one module.
type evaluator struct {
	*Selection
	gate         *Gate
	source       FirstSeen // of the first-seen times; may be nil
	ctx          context.Context
	version      string // the version that is evaluated; empty for all versions
	looked       bool   // firstSeen and errFirstSeen are set
	firstSeen    modproxy.FirstSeen
	errFirstSeen error
	decided      *moduleDecisions
	now          time.Time // zero if no verdict depends on it
}

func (g *Gate) newEvaluator(ctx context.Context, s *state, sel *Selection, firstSeen FirstSeen) evaluator {
	e := evaluator{Selection: sel, gate: g, source: firstSeen, ctx: ctx, decided: s.decisions.about(sel.module)}
	if e.decided != noDecisions || e.needsAge() {
		e.now = time.Now()
	}
	return e
}

// look reads the first-seen times of the module.
func (e *evaluator) look() {
	if !e.looked && e.needsAge() && e.source != nil {
		ctx := e.ctx
		if e.version != "" {
			ctx = modproxy.WithDateOf(ctx, e.version)
		}
		e.firstSeen, e.errFirstSeen = e.source.Of(ctx, e.module)
		e.now = time.Now()
	}
	e.looked = true
}

// facts returns the facts about a version that the allow rules depend on.
func (e *evaluator) facts(v modproxy.Version, content modproxy.Sum) (VersionFacts, error) {
	e.look()
	name, facts := v.String(), VersionFacts{Sum: content}
	if _, seen := e.firstSeen.Of(name); seen {
		facts.Since, facts.ModuleSeen = e.firstSeen.Since(name), e.firstSeen.Module
	}
	if e.locked || e.needsAge() && e.Decide(v, facts, e.decided.of(v), e.now).Outcome == TooYoung {
		rec, err := e.gate.Ledger.Lookup(e.ctx, e.module.At(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return facts, fmt.Errorf("%w: policy: %w", modproxy.ErrUnavailable, err)
		}
		facts.Sum = cmp.Or(content, e.lockedAs(rec), rec.Sum)
		known := cmp.Or(facts.Since, facts.ModuleSeen)
		if err == nil && rec.Reason == "" && (known.IsZero() || rec.Time.Before(known)) {
			facts.Since = rec.Time // the version was listed at the time of its first download
		}
	}
	return facts, nil
}

// lockedAs returns the sum in a lock file that matches one form of a recorded version, or an empty sum.
func (e *evaluator) lockedAs(rec modproxy.Record) modproxy.Sum {
	for _, l := range e.rules.locked[fold(rec.Ref)] {
		if as, err := modproxy.LookupAs(e.ctx, e.gate.Ledger, rec.Ref, l.sum); err == nil && as.Sum == l.sum {
			return l.sum
		}
	}
	return ""
}

// verdict returns the verdict about a version. It reads facts only if the verdict depends on them.
func (e *evaluator) verdict(v modproxy.Version, content modproxy.Sum) (Verdict, error) {
	facts, decided := VersionFacts{Sum: content}, e.decided.of(v)
	verdict := e.Decide(v, facts, decided, e.now)
	if byContent := verdict.Rule != nil && verdict.Rule.Locked != nil; verdict.Outcome != TooYoung && !byContent {
		return verdict, nil
	}
	facts, err := e.facts(v, content)
	if err != nil {
		return Verdict{}, err
	}
	verdict = e.Decide(v, facts, decided, e.now)
	verdict.Pending = verdict.Outcome == TooYoung && e.firstSeen.Pending[v.String()]
	if verdict.Outcome == TooYoung && e.errFirstSeen != nil {
		return verdict, fmt.Errorf("%w: policy: the first-seen times of the versions are not known: %w", modproxy.ErrUnavailable, e.errFirstSeen)
	}
	return verdict, nil
}
