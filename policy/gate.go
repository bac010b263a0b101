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

// Ledger has the decisions of operators, and what versions are.
type Ledger interface {
	// Lookup returns the record that counts for a version. Its error is [fs.ErrNotExist] when there is none.
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	// Decisions returns the decisions from a position on, in the order in which they were made, and the position behind
	// them. Zero is the position of the first one.
	Decisions(ctx context.Context, from int64) (list []modproxy.Decision, next int64, err error)
}

// Sights knows when versions were first listed.
type Sights interface {
	// Sight returns what is known of a module. Case does not count. The zero Sight, with a nil error, is an answer.
	Sight(ctx context.Context, m modproxy.Address) (modproxy.Sight, error)
	// See records the versions of a document that were not seen before. Those that it cannot record stay unknown.
	See(ctx context.Context, m modproxy.Address, v *modproxy.Versions)
}

// Gate makes the verdicts. Its fields are set before the first question. It is safe for concurrent use.
type Gate struct {
	Ledger Ledger
	Sights Sights // nil: no age is known

	once  sync.Once
	state atomic.Pointer[state]
	began time.Time
	read  atomic.Int64 // when decisions were last looked for, since began; zero: never

	changing chan struct{} // has an element while the state is made anew
	next     int64         // position of the next decision; guarded by changing
}

// state is what verdicts are made of. It is not changed.
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
	rereadAfter   = time.Second     // how long decisions count without being looked for
	rereadWithin  = 5 * time.Second // how long that may take
	maxSelections = 16 << 10
	maxLists      = 256
)

func (g *Gate) start() {
	open, _ := Compile(Config{})
	g.state.Store(newState(open, new(decisions)))
	g.changing, g.began = make(chan struct{}, 1), time.Now()
}

func newState(rules *Rules, all *decisions) *state {
	return &state{
		rules: rules, decisions: all,
		selections: memory.Cache[selectionKey, *Selection]{Max: maxSelections}, lists: memory.Cache[listKey, list]{Max: maxLists},
	}
}

// Use makes verdicts by other rules from now on.
func (g *Gate) Use(rules *Rules) {
	g.once.Do(g.start)
	for was := g.state.Load(); !g.state.CompareAndSwap(was, newState(rules, was.decisions)); was = g.state.Load() {
	}
}

// Rules returns the rules in force.
func (g *Gate) Rules() *Rules {
	g.once.Do(g.start)
	return g.state.Load().rules
}

// Reserved returns nil, or if the rules keep a namespace for other hosts than this one, a [*Refusal]. No mode changes that: a
// question that has left is not undone. It is for what asks, below every layer.
func (g *Gate) Reserved(host, namespace string) error {
	rules := g.Rules()
	if rules.reserved(host, namespace) == nil {
		return nil
	}
	m := modproxy.Address{Host: host, Namespace: namespace}
	return &Refusal{Verdict{Outcome: Reserved}, m.At(""), rules.Contact}
}

// ReservedIn is Reserved for the namespaces that are named in a text, such as what is searched for.
func (g *Gate) ReservedIn(host, text string) error {
	rules := g.Rules()
	reserve := rules.reservedIn(host, text)
	if reserve == nil {
		return nil
	}
	m := modproxy.Address{Host: host, Namespace: reserve.Namespace}
	return &Refusal{Verdict{Outcome: Reserved}, m.At(""), rules.Contact}
}

// Follow reads the decisions that were made since it was last called. Verdicts call it when a second has passed; what makes
// a decision calls it, too. After an error the decisions count that were read before.
func (g *Gate) Follow(ctx context.Context) error {
	g.once.Do(g.start)
	select {
	case g.changing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.changing }()
	more, next, err := g.Ledger.Decisions(ctx, g.next)
	if err != nil {
		return err
	}
	if len(more) > 0 {
		for was := g.state.Load(); !g.state.CompareAndSwap(was, newState(was.rules, was.decisions.with(more))); was = g.state.Load() {
		}
	}
	g.next = next
	g.read.Store(g.elapsed())
	return nil
}

// elapsed returns the time since g began, at least 1. A jump of the wall clock does not move it.
func (g *Gate) elapsed() int64 { return max(1, int64(time.Since(g.began))) }

// now returns the state in force.
func (g *Gate) now(ctx context.Context) (*state, error) {
	g.once.Do(g.start)
	last, now := g.read.Load(), g.elapsed()
	switch {
	case last == 0:
		if err := g.Follow(ctx); err != nil {
			return nil, fmt.Errorf("%w: policy: the decisions cannot be read: %w", modproxy.ErrUnavailable, err)
		}
	case now-last > int64(rereadAfter) && g.read.CompareAndSwap(last, now):
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rereadWithin)
		defer cancel()
		_ = g.Follow(ctx) // what was read before counts; the ledger tells its own failures
	}
	return g.state.Load(), nil
}

// idle reports whether everything is allowed.
func (s *state) idle() bool { return s.rules.trivial && s.decisions.made == 0 }

// of returns the rules for a module and the client of ctx; nil when everything is allowed.
func (s *state) of(ctx context.Context, m modproxy.Address) *Selection {
	if s.idle() {
		return nil
	}
	return s.selection(m, modproxy.AskerOf(ctx).Groups)
}

// ofVersion is of, for a version. Who has the address of what a package calls is in no group that is known.
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

// Decide returns the verdict about a version for the client of ctx, or about a module if the version is empty: that is
// refused if every version of it is. The mode of the rules makes no difference.
//
// Errors: [modproxy.ErrInvalid] for what is no version; [modproxy.ErrUnavailable] when what the verdict needs cannot be
// read.
func (g *Gate) Decide(ctx context.Context, v modproxy.Ref) (Verdict, error) {
	s, err := g.now(ctx)
	if err != nil || s.idle() {
		return Verdict{Outcome: Allowed}, err
	}
	return g.decide(ctx, s, s.of(ctx, v.Address), v, "", g.Sights)
}

// NeedsAge reports whether verdicts about versions of m, for the client of ctx, depend on their age.
func (g *Gate) NeedsAge(ctx context.Context, m modproxy.Address) bool {
	s, err := g.now(ctx)
	if err != nil || g.Sights == nil {
		return false
	}
	sel := s.of(ctx, m)
	return sel != nil && sel.needsAge() && !sel.Module().Refused()
}

// Check returns an error if a version, or a module as a whole, is refused whoever asks for it. It is for what asks
// registries without a client. In audit mode nothing is refused but what is [Reserved].
//
// Errors: [*Refusal]; those of Decide.
func (g *Gate) Check(ctx context.Context, v modproxy.Ref) error {
	return g.check(ctx, v, g.Sights, func(s *state) *Selection { return s.rules.forAnybody(v.Address) })
}

// CheckFetch is Check for a fetch. What waits for approval may be fetched for review.
func (g *Gate) CheckFetch(ctx context.Context, v modproxy.Ref) error {
	err := g.Check(ctx, v)
	if refusal, ok := errors.AsType[*Refusal](err); ok && refusal.Outcome == Unapproved {
		return nil
	}
	return err
}

// CheckClient is Check for the client of ctx.
func (g *Gate) CheckClient(ctx context.Context, v modproxy.Ref) error {
	return g.CheckClientBy(ctx, v, g.Sights)
}

// CheckNamespace returns an error if the client of ctx may use no module of a namespace, whatever it is called. Of the decisions, only
// those about all modules of the namespace count. Its error is [modproxy.ErrDenied] for what is refused.
func (g *Gate) CheckNamespace(ctx context.Context, host, namespace string) error {
	s, err := g.now(ctx)
	if err != nil || s.idle() {
		return err
	}
	every := modproxy.Address{Host: host, Namespace: namespace, Name: "*", System: "*"}
	verdict := s.rules.namespace(host, namespace, modproxy.AskerOf(ctx).Groups)
	if block := s.decisions.about(every).blocked(); block != nil && verdict.Outcome != Reserved {
		verdict = Verdict{Outcome: Blocked, Decision: block}
	}
	if !verdict.Refused() || s.rules.Audit && verdict.Outcome != Reserved {
		return nil
	}
	return &Refusal{verdict, modproxy.Address{Host: host, Namespace: namespace}.At(""), s.rules.Contact}
}

// CheckClientBy is CheckClient by other sights than those of the gate: such as may be wrong, or do not ask.
func (g *Gate) CheckClientBy(ctx context.Context, v modproxy.Ref, sights Sights) error {
	return g.check(ctx, v, sights, func(s *state) *Selection { return s.of(ctx, v.Address) })
}

func (g *Gate) check(ctx context.Context, v modproxy.Ref, sights Sights, by func(*state) *Selection) error {
	s, err := g.now(ctx)
	if err != nil || s.idle() {
		return err
	}
	verdict, err := g.decide(ctx, s, by(s), v, "", sights)
	switch {
	case s.rules.Audit && verdict.Outcome != Reserved:
		return nil
	case err == nil && verdict.Refused():
		return &Refusal{verdict, v, s.rules.Contact}
	}
	return err
}

// decide returns the verdict about a version of the module of sel, which holds for what was made of it, too. content is
// what it has, if that is known better than the ledger knows it. sights may be nil.
func (g *Gate) decide(
	ctx context.Context, s *state, sel *Selection, v modproxy.Ref, content modproxy.Sum, sights Sights,
) (Verdict, error) {
	if !v.IsListed() {
		content = "" // of something else
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
	judge := g.judge(ctx, s, sel, sights)
	judge.version = v.Version
	return judge.verdict(version, content)
}

// see records what a document lists: it may have been kept before anything looked on.
func (g *Gate) see(ctx context.Context, m modproxy.Address, v *modproxy.Versions) {
	if g.Sights != nil {
		g.Sights.See(ctx, m, v)
	}
}

// judge makes the verdicts about the versions of one module.
type judge struct {
	*Selection
	gate     *Gate
	sights   Sights // may be nil
	ctx      context.Context
	version  string // that it is about; empty for all
	looked   bool   // for the sight
	sight    modproxy.Sight
	errSight error
	decided  *moduleDecisions
	now      time.Time // zero where it makes no difference
}

func (g *Gate) judge(ctx context.Context, s *state, sel *Selection, sights Sights) judge {
	j := judge{Selection: sel, gate: g, sights: sights, ctx: ctx, decided: s.decisions.about(sel.module)}
	if j.decided != noDecisions || j.needsAge() {
		j.now = time.Now()
	}
	return j
}

// look asks for the sight of the module.
func (j *judge) look() {
	if !j.looked && j.needsAge() && j.sights != nil {
		ctx := j.ctx
		if j.version != "" {
			ctx = modproxy.WithDateOf(ctx, j.version)
		}
		j.sight, j.errSight = j.sights.Sight(ctx, j.module)
		j.now = time.Now()
	}
	j.looked = true
}

// facts returns what is known about a version, as far as it makes a difference to the rules that allow.
func (j *judge) facts(v modproxy.Version, content modproxy.Sum) (Facts, error) {
	j.look()
	name, facts := v.String(), Facts{Sum: content}
	if _, seen := j.sight.Of(name); seen {
		facts.Since, facts.Met = j.sight.Since(name), j.sight.Met
	}
	if j.locked || j.needsAge() && j.Decide(v, facts, j.decided.of(v), j.now).Outcome == TooYoung {
		rec, err := j.gate.Ledger.Lookup(j.ctx, j.module.At(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return facts, fmt.Errorf("%w: policy: %w", modproxy.ErrUnavailable, err)
		}
		facts.Sum = cmp.Or(content, j.lockedAs(rec), rec.Sum)
		known := cmp.Or(facts.Since, facts.Met)
		if err == nil && rec.Reason == "" && (known.IsZero() || rec.Time.Before(known)) {
			facts.Since = rec.Time // it was listed then
		}
	}
	return facts, nil
}

// lockedAs returns the sum in a lock file that a recorded version has, in whatever form it is served, or nothing.
func (j *judge) lockedAs(rec modproxy.Record) modproxy.Sum {
	for _, l := range j.rules.locked[fold(rec.Ref)] {
		if as, err := modproxy.LookupAs(j.ctx, j.gate.Ledger, rec.Ref, l.sum); err == nil && as.Sum == l.sum {
			return l.sum
		}
	}
	return ""
}

// verdict returns the verdict about a version. It looks for facts only if they make a difference.
func (j *judge) verdict(v modproxy.Version, content modproxy.Sum) (Verdict, error) {
	facts, decided := Facts{Sum: content}, j.decided.of(v)
	verdict := j.Decide(v, facts, decided, j.now)
	if byContent := verdict.Rule != nil && verdict.Rule.Locked != nil; verdict.Outcome != TooYoung && !byContent {
		return verdict, nil
	}
	facts, err := j.facts(v, content)
	if err != nil {
		return Verdict{}, err
	}
	verdict = j.Decide(v, facts, decided, j.now)
	verdict.Pending = verdict.Outcome == TooYoung && j.sight.Pending[v.String()]
	if verdict.Outcome == TooYoung && j.errSight != nil {
		return verdict, fmt.Errorf("%w: policy: since when versions are listed is not known: %w", modproxy.ErrUnavailable, j.errSight)
	}
	return verdict, nil
}
