package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A line simulates the way to the internet: data arrives later, all data in one direction shares the bandwidth, and a new connection has
// a cost.
type line struct {
	delay    time.Duration // one way
	connect  atomic.Int64  // nanoseconds until a new connection carries the client's first request, with TLS
	up, down pace
}

// A pace computes when bytes that are sent in sequence have left.
type pace struct {
	rate float64 // bytes a second

	mu   sync.Mutex
	free time.Time
	sent int64 // bytes
}

// take returns the time when n bytes that are handed over now have left.
func (p *pace) take(now time.Time, n int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent += int64(n)
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	return p.free
}

// total is the number of bytes sent since the last call.
func (p *pace) total() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, p.sent = p.sent, 0
	return n
}

func newLine(roundTrip, connect time.Duration, rate float64) *line {
	l := &line{delay: roundTrip / 2, up: pace{rate: rate}, down: pace{rate: rate}}
	l.connect.Store(int64(connect))
	return l
}

// greeting is the exchange before the client's first request. In TLS 1.3, the client sends, the server answers, and the client completes
// the exchange together with its request. The greeting is not delayed, because connect includes its cost.
type greeting struct{ answered, ended atomic.Bool }

// up and down report whether data read from the client, or the server, belongs to the greeting.
func (g *greeting) up() bool {
	if g.answered.Load() {
		g.ended.Store(true)
	}
	return !g.ended.Load()
}

func (g *greeting) down() bool {
	g.answered.Store(true)
	return !g.ended.Load()
}

// A relay accepts connections on Addr and carries them over a line to a server.
type relay struct {
	Addr string // host:port

	accepted atomic.Int64 // connections
	line     *line
	listener net.Listener
	ctx      context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
}

// listenRelay returns a relay that accepts connections after [relay.serve].
func listenRelay(l *line) (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{Addr: listener.Addr().String(), line: l, listener: listener}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r, nil
}

func (r *relay) serve(target string) {
	r.running.Go(func() {
		for {
			client, err := r.listener.Accept()
			if err != nil {
				return
			}
			r.accepted.Add(1)
			r.running.Go(func() { r.carry(client, target, time.Now()) })
		}
	})
}

// close breaks all connections.
func (r *relay) close() error {
	err := r.listener.Close()
	r.end()
	r.running.Wait()
	return err
}

// carry carries one connection, which a client opened at accepted, until both directions have ended or one is broken.
func (r *relay) carry(client net.Conn, target string, accepted time.Time) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	ctx, broken := context.WithCancel(r.ctx)
	defer broken()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})
	defer stop()
	// The kernel opens the connection at once. The client sends nothing before the line has opened it.
	open := accepted.Add(time.Duration(r.line.connect.Load()))
	var g greeting
	var both sync.WaitGroup
	both.Go(func() { r.send(ctx, broken, server, client, &r.line.up, open, g.up) })
	both.Go(func() { r.send(ctx, broken, client, server, &r.line.down, accepted, g.down) })
	both.Wait()
}

// parcel is data from one read, with its time of arrival. last marks the end.
type parcel struct {
	data []byte
	at   time.Time
	last bool
}

const parcelSize = 16 << 10

// send moves data from src to dst until src ends: nothing before open, except the greeting, which moves at once.
func (r *relay) send(
	ctx context.Context, broken func(), dst, src net.Conn, p *pace, open time.Time, greets func() bool,
) {
	onTheWay := make(chan parcel, 128) // 2 MiB: more than the line holds
	var receive sync.WaitGroup
	receive.Go(func() {
		for next := range onTheWay {
			select {
			case <-time.After(time.Until(next.at)):
			case <-ctx.Done():
				continue
			}
			if next.last {
				if tcp, ok := dst.(*net.TCPConn); ok {
					tcp.CloseWrite()
				}
			} else if _, err := dst.Write(next.data); err != nil {
				broken()
			}
		}
	})
	defer receive.Wait()
	defer close(onTheWay)
	for {
		data := make([]byte, parcelSize)
		n, err := src.Read(data)
		now := time.Now()
		if now.Before(open) {
			now = open
		}
		next := parcel{data: data[:n], at: p.take(now, n), last: n == 0}
		if !greets() {
			next.at = next.at.Add(r.line.delay)
		}
		select {
		case onTheWay <- next:
		case <-ctx.Done():
			return
		}
		if err != nil {
			if n > 0 {
				onTheWay <- parcel{at: next.at, last: true}
			}
			return
		}
	}
}
