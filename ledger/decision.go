package ledger

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

const decisionPrefix = "decision "

var (
	decisionLines = []string{"time", "by", "versions", "until", "reason", "link"}
	actions       = []modproxy.Action{modproxy.Approve, modproxy.Reject, modproxy.Block, modproxy.Unblock, modproxy.Deprecate}
)

// FormatDecision returns the text of a decision in the log. A sumdb client takes none of its lines for a line of go.sum. Lines
// with an empty value are left out:
//
//	decision registry.example.com/acme/vpc/aws block
//	time 2026-05-06T07:08:09Z
//	by token security (5f0c)
//	versions < 1.4.0
//	until 2026-12-31T00:00:00Z
//	reason a bucket that everybody can read
//	link https://example.com/advisory
//
// The path of a glob is the glob itself, as in */acme/vpc/aws. Errors are [modproxy.ErrInvalid].
func FormatDecision(d modproxy.Decision) ([]byte, error) {
	path, err := decisionPath(d)
	if err := cmp.Or(err, checkTime(d.Time), checkDecision(d)); err != nil {
		return nil, err
	}
	until := ""
	if !d.Until.IsZero() {
		until = d.Until.UTC().Format(time.RFC3339Nano)
	}
	return formatText(decisionPrefix+path+" "+string(d.Action), decisionLines,
		d.Time.UTC().Format(time.RFC3339Nano), d.By, d.Versions, until, d.Reason, d.Link)
}

var globs = regexp.MustCompile(`^[0-9a-z.:*-]+(/[0-9a-z_*-]+){2,3}$`)

const maxGlobSegment = 300 // bytes

// decisionPath returns the key path of the module of d, or its glob.
func decisionPath(d modproxy.Decision) (string, error) {
	if glob := d.Address.String(); d.IsGlob() {
		long := func(segment string) bool { return len(segment) > maxGlobSegment }
		if !globs.MatchString(glob) || strings.Contains(glob, "**") || slices.ContainsFunc(strings.Split(glob, "/"), long) {
			return "", fmt.Errorf("%w: glob %.200q: want lower-case segments of an address, with * for any part of one", modproxy.ErrInvalid, glob)
		}
		return glob, nil
	}
	key, err := Key(d.At("0.0.0")) // the path does not depend on the version
	return key.Path, err
}

// parseDecisionPath is the inverse of decisionPath.
func parseDecisionPath(path string) (modproxy.Address, error) {
	if !strings.Contains(path, "*") {
		v, err := ParseKey(module.Version{Path: path, Version: "v0.0.0"})
		return v.Address, err
	}
	segments := append(strings.Split(path, "/"), "", "", "")
	return modproxy.Address{Host: segments[0], Namespace: segments[1], Name: segments[2], System: segments[3]}, nil
}

func checkDecision(d modproxy.Decision) error {
	if !slices.Contains(actions, d.Action) {
		return fmt.Errorf("%w: decision %.80q", modproxy.ErrInvalid, d.Action)
	}
	if d.Versions != "" {
		if _, err := modproxy.ParseConstraint(d.Versions); err != nil {
			return err
		}
	}
	for name, value := range map[string]string{"reason": d.Reason, "name of the operator": d.By, "constraint": d.Versions, "link": d.Link} {
		if len(value) > MaxReason || !isLine(value) {
			return fmt.Errorf("%w: %s: want one line of at most %d bytes", modproxy.ErrInvalid, name, MaxReason)
		}
	}
	switch u, err := url.Parse(d.Link); {
	case d.By == "":
		return fmt.Errorf("%w: a decision needs the name of the operator", modproxy.ErrInvalid)
	case !d.Until.IsZero() && d.Action != modproxy.Approve:
		return fmt.Errorf("%w: only an approval can have an end", modproxy.ErrInvalid)
	case d.Link != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil):
		return fmt.Errorf("%w: link: want an https URL", modproxy.ErrInvalid)
	case d.Link != "" && d.Action != modproxy.Deprecate:
		return fmt.Errorf("%w: a link is for deprecations only", modproxy.ErrInvalid)
	}
	return nil
}

// ParseDecision is the inverse of [FormatDecision]; its error is [modproxy.ErrInvalid].
func ParseDecision(text []byte) (modproxy.Decision, error) {
	first, value := parseText(text, decisionLines)
	m, err := parseDecisionPath(first[1])
	d := modproxy.Decision{
		Address: m, Action: modproxy.Action(first[2]), Time: parseTime(value[0]), By: value[1], Versions: value[2],
		Reason: value[4], Link: value[5],
	}
	if value[3] != "" {
		d.Until = parseTime(value[3])
	}
	return whole(text, FormatDecision, err, d)
}

// Decide implements [Ledger].
func (l *Log) Decide(ctx context.Context, d modproxy.Decision) error {
	text, err := FormatDecision(d)
	return l.append(ctx, text, err)
}

// Decisions implements [Ledger].
func (l *Log) Decisions(ctx context.Context, from int64) (list []modproxy.Decision, next int64, err error) {
	l.mu.RLock()
	numbers := l.index.decisions
	l.mu.RUnlock()
	for _, number := range numbers[min(from, int64(len(numbers))):] {
		text, err := l.text(number)
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return nil, from, err
		}
		d, err := ParseDecision(text)
		if err != nil {
			return nil, from, err
		}
		list = append(list, d)
	}
	return list, int64(len(numbers)), nil
}
