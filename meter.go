package modproxy

import (
	"context"
	"sync/atomic"
)

// Meter counts what is received for a package, while it is received. A nil Meter
// counts nothing.
type Meter struct {
	received  atomic.Int64
	receiving atomic.Int64
}

type meterKey struct{}

// WithMeter returns a context for the fetch of one package, which m counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// MeterOf returns the meter of a context; nil if it has none.
func MeterOf(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

// Begin is the beginning of receiving, until end is called.
func (m *Meter) Begin() (end func()) {
	if m == nil {
		return func() {}
	}
	m.receiving.Add(1)
	return func() { m.receiving.Add(-1) }
}

// Add counts n bytes.
func (m *Meter) Add(n int64) {
	if m != nil {
		m.received.Add(n)
	}
}

// Received returns the bytes so far, and whether more are being waited for.
func (m *Meter) Received() (bytes int64, receiving bool) {
	return m.received.Load(), m.receiving.Load() > 0
}
