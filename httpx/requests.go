package httpx

import "sync/atomic"

// Requests counts the running requests. Some of them only send: see [Response.OnlySends]. The zero value is ready. It is safe for
// concurrent use. A nil Requests counts nothing.
type Requests struct{ running, working atomic.Int64 }

// Running returns the number of running requests.
func (q *Requests) Running() int { return int(q.running.Load()) }

// Working returns the number of running requests that do more than send.
func (q *Requests) Working() int { return int(q.working.Load()) }

func (q *Requests) begin() {
	if q != nil {
		q.running.Add(1)
		q.working.Add(1)
	}
}

func (q *Requests) send() {
	if q != nil {
		q.working.Add(-1)
	}
}

func (q *Requests) end(onlySends bool) {
	if q == nil {
		return
	}
	if !onlySends {
		q.working.Add(-1)
	}
	q.running.Add(-1)
}
