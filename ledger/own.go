package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/modproxy/modproxy"
)

const ownPrefix = "own "

var ownLines = []string{"time"}

// OwnHost states that own modules have a host in their addresses. The last statement of a log counts.
type OwnHost struct {
	Host string
	Time time.Time // of the statement; not zero
}

// FormatOwnHost returns the text of a statement in the log. A sumdb client takes none of its lines for a line of go.sum:
//
//	own modules.example.com:8443
//	time 2026-05-06T07:08:09Z
//
// Errors are [modproxy.ErrInvalid].
func FormatOwnHost(o OwnHost) ([]byte, error) {
	_, err := Key(modproxy.Address{Host: o.Host, Namespace: "any", Name: "any", System: "any"}.At("0.0.0")) // checks the host
	if err := cmp.Or(err, checkTime(o.Time)); err != nil {
		return nil, fmt.Errorf("host of own modules: %w", err)
	}
	return formatText(ownPrefix+o.Host, ownLines, o.Time.UTC().Format(time.RFC3339Nano))
}

// ParseOwnHost is the inverse of [FormatOwnHost]; its error is [modproxy.ErrInvalid].
func ParseOwnHost(text []byte) (OwnHost, error) {
	first, value := parseText(text, ownLines)
	return whole(text, FormatOwnHost, nil, OwnHost{Host: first[1], Time: parseTime(value[0])})
}

// Own returns the host of own modules that was recorded last, or an empty string.
func (l *Log) Own() string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.index.own
}

// SetOwn records the host of own modules. It adds nothing if host is the last one.
func (l *Log) SetOwn(ctx context.Context, host string) error {
	text, err := FormatOwnHost(OwnHost{Host: host, Time: time.Now()})
	return l.append(ctx, text, err)
}
