package ledger

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/mod/module"

	"github.com/modproxy/modproxy"
)

const decisionPrefix = "decision "

var (
	decisionLines = []string{"time", "by", "versions", "until", "reason", "link"}
	actions       = []modproxy.Action{modproxy.Approve, modproxy.Reject, modproxy.Block, modproxy.Unblock, modproxy.Deprecate}
)

// FormatDecision returns a decision as it is in the log. A sumdb client takes none of its lines for one of go.sum. Lines
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
// Errors are [modproxy.ErrInvalid].
func FormatDecision(d modproxy.Decision) ([]byte, error) {
	key, err := Key(d.At("0.0.0")) // whose path is that of every version
	if err := cmp.Or(err, checkTime(d.Time), checkDecision(d)); err != nil {
		return nil, err
	}
	until := ""
	if !d.Until.IsZero() {
		until = d.Until.UTC().Format(time.RFC3339Nano)
	}
	return formatText(decisionPrefix+key.Path+" "+string(d.Action), decisionLines,
		d.Time.UTC().Format(time.RFC3339Nano), d.By, d.Versions, until, d.Reason, d.Link)
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
	for name, value := range map[string]string{"reason": d.Reason, "name of who decides": d.By, "constraint": d.Versions, "link": d.Link} {
		if len(value) > MaxReason || !isLine(value) {
			return fmt.Errorf("%w: %s: want one line of at most %d bytes", modproxy.ErrInvalid, name, MaxReason)
		}
	}
	switch u, err := url.Parse(d.Link); {
	case d.By == "":
		return fmt.Errorf("%w: a decision of nobody", modproxy.ErrInvalid)
	case !d.Until.IsZero() && d.Action != modproxy.Approve:
		return fmt.Errorf("%w: only an approval ends by itself", modproxy.ErrInvalid)
	case d.Link != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil):
		return fmt.Errorf("%w: link: want an https URL", modproxy.ErrInvalid)
	case d.Link != "" && d.Action != modproxy.Deprecate:
		return fmt.Errorf("%w: a link is for what is deprecated", modproxy.ErrInvalid)
	}
	return nil
}

// ParseDecision is the inverse of [FormatDecision]; its error is [modproxy.ErrInvalid].
func ParseDecision(text []byte) (modproxy.Decision, error) {
	first, value := parseText(text, decisionLines)
	v, err := ParseKey(module.Version{Path: first[1], Version: "v0.0.0"})
	d := modproxy.Decision{
		Module: v.Module, Action: modproxy.Action(first[2]), Time: parseTime(value[0]), By: value[1], Versions: value[2],
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
	numbers := l.book.decisions
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
