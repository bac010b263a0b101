package ask

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

var (
	errTrouble = fmt.Errorf("%w: GET https://registry.example/v1/modules/acme/secret: %w", modproxy.ErrUnavailable,
		&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH})
	errGateway = answered("registry.example", "502 Bad Gateway", http.StatusBadGateway)
)

func answered(where, status string, code int) *fetch.Answered {
	return &fetch.Answered{Where: where, Status: status, Code: code}
}

// asks asks one question about a part through l, and returns how often it was sent.
func asks(l *Limiter, part string, outcome error) (sent int, err error) {
	_, err = Do(context.Background(), l, part, func(context.Context) (int, error) {
		sent++
		return 0, outcome
	})
	return sent, err
}

// The error of a question that is not sent names the server and its failure, and nothing about the questions of
// others.
func TestGateSaysWhatTroubleThereIs(t *testing.T) {
	refused := fmt.Errorf("%w: GET https://registry.example/v1/modules/acme/secret: %w", modproxy.ErrUnavailable,
		&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
	for want, outcome := range map[string]error{
		"unavailable: registry.example: connection refused by 192.0.2.1:443 (N times in a row); modproxy tries again every second or two": refused,
		"unavailable: registry.example: i/o timeout (N times in a row); modproxy tries again every second or two": fmt.Errorf("%w: %w", modproxy.ErrUnavailable,
			&net.DNSError{Err: "read udp 10.1.2.3:4567->10.1.2.1:53: i/o timeout", Name: "registry.example", Server: "10.1.2.1:53", IsTimeout: true}),
		"unavailable: registry.example: it did not answer git (N times in a row); modproxy tries again every second or two": &fetch.NoAnswer{
			Why: "it did not answer git", Err: fmt.Errorf("%w: https://registry.example/acme/secret.git", modproxy.ErrUnavailable)},
		"unavailable: registry.example: it answered 502 Bad Gateway (N times in a row); modproxy tries again every second or two": errGateway,
		"unavailable: registry.example: it wants to be left alone for now":                                                        &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: errGateway},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{Host: "registry.example"})
			for range 8 {
				asks(l, "acme", outcome)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			outages := l.outages("acme")
			err := outages[len(outages)-1].refusal(l.options.Host, time.Now())
			if regexp.MustCompile(`\(\d+ times`).ReplaceAllString(err.Error(), "(N times") != want {
				t.Errorf("%v; want %s", err, want)
			}
		})
	}
}

// A server that answers with a refusal is available. Outcomes that one question can cause never count, however many
// there are.
func TestGateCountsNothingButTrouble(t *testing.T) {
	calm := []error{nil, modproxy.ErrNotFound, modproxy.ErrDenied, modproxy.ErrInvalid}
	for _, code := range []int{400, 414, 422, 500, 501} {
		calm = append(calm, answered("registry.example", http.StatusText(code), code))
	}
	calm = append(calm, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, modproxy.ErrInvalid)) // another document than requested
	for _, outcome := range calm {
		l := New(Options{Rate: 1_000_000})
		for i := range 100 {
			if sent, err := asks(l, "acme", outcome); sent != 1 || err != outcome {
				t.Fatalf("%v, for the %dth time: sent %d times: %v", outcome, i, sent, err)
			}
		}
	}
}

func TestGateTellsNobodyWhatOthersAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		for range 10 {
			asks(l, "acme", errTrouble)
		}
		go asks(l, "acme", errTrouble)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.wait(ctx, &attempt{part: "other"}, time.Now().Add(Within)); err == nil ||
			strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "no route to host") {
			t.Errorf("another is told: %v", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestGateKeepsToTheServersWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		wish := &modproxy.RetryLater{After: time.Now().Add(time.Minute), Err: answered("registry.example", "429", http.StatusTooManyRequests)}
		if sent, err := asks(l, "acme", wish); sent != 1 || err != wish {
			t.Fatalf("sent %d times: %v", sent, err)
		}
		time.Sleep(54 * time.Second)
		var later *modproxy.RetryLater
		if sent, err := asks(l, "other", nil); sent != 0 || !errors.As(err, &later) || !later.After.Equal(wish.After) {
			t.Errorf("before the time is over: sent %d times: %v", sent, err)
		}
		time.Sleep(2 * time.Second)
		if sent, err := asks(l, "other", nil); sent != 1 || err != nil || time.Now().Before(wish.After) {
			t.Errorf("shortly before it is over: sent %d times: %v", sent, err)
		}
	})
}

// Retry-After holds regardless of questions in progress. A failure after it does not stop questions forever.
func TestGateComesBackAfterAWish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{})
		go Do(t.Context(), l, "acme", func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil })
		synctest.Wait()
		wish := &modproxy.RetryLater{After: time.Now().Add(time.Minute), Err: answered("registry.example", "429", http.StatusTooManyRequests)}
		asks(l, "acme", wish)
		time.Sleep(2 * time.Second)
		if sent, _ := asks(l, "acme", nil); sent > 0 {
			t.Error("an answer that was under way ended the wish")
		}
		time.Sleep(time.Minute)
		if sent, err := asks(l, "acme", errGateway); sent == 0 {
			t.Errorf("the first after it is not sent: %v", err)
		}
		if sent, err := asks(l, "acme", nil); sent != 1 || err != nil {
			t.Errorf("after one that failed: sent %d times: %v", sent, err)
		}
	})
}

// The failures of one part do not affect others; the failures of two do.
func TestGateTellsPartsApart(t *testing.T) {
	for name, outcome := range map[string]error{
		"gateway": errGateway,
		"wish":    &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: answered("registry.example", "503", http.StatusServiceUnavailable)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New(Options{})
				for range 10 {
					go asks(l, "broken", outcome)
				}
				for i := range 100 {
					asked := time.Now()
					if sent, err := asks(l, "acme", nil); sent != 1 || err != nil || time.Since(asked) > 0 {
						t.Fatalf("question %d of another part: sent %d times after %v: %v", i, sent, time.Since(asked), err)
					}
					time.Sleep(100 * time.Millisecond)
				}
				for _, part := range []string{"one", "another"} {
					asks(l, part, outcome)
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				if !l.whole.on {
					t.Error("two parts fail and none succeeds, and the server is asked as before")
				}
			})
		})
	}
}

// If one of two limiters of a host fails or is asked for a pause, the other is unaffected. Both share the rate.
func TestShare(t *testing.T) {
	modules := New(Options{Host: "a.example"})
	providers := New(Options{Host: "a.example", Rate: 7, Share: modules})
	wish := &modproxy.RetryLater{After: time.Now().Add(time.Hour), Err: answered("a.example", "429", http.StatusTooManyRequests)}
	asks(providers, "acme", wish)
	if sent, err := asks(providers, "acme", nil); sent > 0 || err == nil {
		t.Errorf("providers are asked all the same: %v", err)
	}
	if sent, err := asks(modules, "acme", nil); sent != 1 || err != nil {
		t.Errorf("modules: sent %d times: %v", sent, err)
	}
	if providers.rate != modules.rate || providers.queue != modules.queue || providers.rateQueue != modules.rateQueue {
		t.Error("the host is asked at more than its rate")
	}
}

func TestGateBoundsRateAndTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Rate: 10})
		var mu sync.Mutex
		passed, refused := 0, 0
		for range 1000 { // ten seconds
			go func() {
				_, err := asks(l, "acme", nil)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					passed++
				case errors.As(err, new(*modproxy.RetryLater)):
					refused++
				default:
					t.Error(err)
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if passed < 100 || passed > 111+5*10 || passed+refused != 1000 {
			t.Errorf("%d questions passed and %d were refused; want 10 a second for fifteen seconds, and 10 at once", passed, refused)
		}

		l = New(Options{Rate: 1000})
		underWay, most := 0, 0
		for range 10 * defaultAtOnce {
			go Do(t.Context(), l, "acme", func(context.Context) (int, error) {
				mu.Lock()
				underWay++
				most = max(most, underWay)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				underWay--
				mu.Unlock()
				return 0, nil
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if most != defaultAtOnce*3/4 {
			t.Errorf("%d questions at a time; want %d", most, defaultAtOnce*3/4)
		}
	})
}

// An answer that comes within Options.Late is not late, also during an outage.
func TestLate(t *testing.T) {
	for _, test := range []struct {
		late   time.Duration
		isLate bool
	}{{0, true}, {5 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			l := New(Options{Late: test.late})
			asksLong := func() {
				go Do(t.Context(), l, "acme", func(context.Context) (int, error) { time.Sleep(4 * time.Second); return 0, nil })
				time.Sleep(3 * time.Second)
			}
			asksLong()
			l.mu.Lock()
			if isLate := l.parts["acme"] != nil; isLate != test.isLate {
				t.Errorf("Late %v: late after 3 s: %t", test.late, isLate)
			}
			l.mu.Unlock()
			time.Sleep(time.Minute)
			for range outageFailures {
				l.done(&attempt{part: "acme", began: time.Now()}, errGateway)
				time.Sleep(time.Millisecond)
			}
			time.Sleep(outagePause)
			asksLong()
			l.mu.Lock()
			if isLate := l.parts["acme"].trial == nil; isLate != test.isLate {
				t.Errorf("Late %v: a trial is late after 3 s: %t", test.late, isLate)
			}
			l.mu.Unlock()
			time.Sleep(time.Minute)
		})
	}
}

// Options.AtOnce bounds the questions in progress, and also those whose answers are late.
func TestAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{AtOnce: 4, Late: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		var inProgress atomic.Int32
		for i := range 100 {
			ctx := modproxy.WithClient(ctx, modproxy.Client{Name: fmt.Sprint(i % 10)})
			go Do(ctx, l, "acme", func(ctx context.Context) (int, error) {
				inProgress.Add(1)
				defer inProgress.Add(-1)
				Begin(ctx)
				<-ctx.Done()
				return 0, context.Cause(ctx)
			})
		}
		time.Sleep(time.Second / 2)
		if n := inProgress.Load(); n != 4 {
			t.Errorf("%d questions at a time; want 4", n)
		}
		time.Sleep(4 * time.Second)
		if n := inProgress.Load(); n != 4+3*4 {
			t.Errorf("%d questions in progress; want 4, and 12 that are late", n)
		}
		cancel()
		time.Sleep(time.Minute)
	})
}
