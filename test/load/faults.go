package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A fault is something that happens to a running program. Its error is an unwanted consequence.
type fault struct {
	name string
	run  func(*soak, context.Context) error
}

var faults = []fault{
	{"registry down", inTrouble(trouble{refuse: true})},
	{"killed", (*soak).kill},
	{"registry slow", inTrouble(trouble{slow: 10 * time.Second})},
	{"clients that go away", (*soak).leave},
	{"429 of the registry", inTrouble(trouble{status: http.StatusTooManyRequests})},
	{"told to end", (*soak).restart},
	{"500 of the registry", inTrouble(trouble{status: http.StatusInternalServerError})},
	{"verbs of operators", (*soak).operate},
	{"archives cut off", inTrouble(trouble{cut: true})},
	{"disk full", (*soak).fill},
	{"token revoked", (*soak).revoke},
	{"rules changed", (*soak).rules},
	{"slow clients", (*soak).slow},
	{"modules that do not exist", (*soak).absent},
	{"damaged package", (*soak).damage},
	{"stopped for a while", (*soak).freeze},
}

// inTrouble disturbs the registry for a while. Requests for stored packages must not be affected.
func inTrouble(t trouble) func(*soak, context.Context) error {
	return func(s *soak, ctx context.Context) error {
		defer s.during(cold)()
		s.p.up.trouble.Store(&t)
		defer s.p.up.trouble.Store(&trouble{})
		began := time.Now()
		if !t.cut && (!s.quick || t.status == http.StatusInternalServerError) { // whether a module exists is unknown now
			r := s.question(ctx, "/"+registryHost+"/v1/modules/"+moduleName("lost", int(began.UnixNano()), 1, 1)+"/versions")
			if r.status < http.StatusBadGateway || r.status > http.StatusGatewayTimeout {
				return fmt.Errorf("a module that is not stored: %v", &r)
			}
			if r.took > 9*time.Second {
				return fmt.Errorf("a module that is not stored: %v after %v", &r, r.took)
			}
		}
		pause(ctx, s.hold-time.Since(began))
		return nil
	}
}

// question sends a request with a token, on its own connection.
func (s *soak) question(ctx context.Context, path string) reply {
	c := &conn{address: s.p.address, timeout: 30 * time.Second}
	defer c.close()
	return c.ask(ctx, path, s.p.tokens[0], false)
}

// kill kills the proxy and starts it again.
func (s *soak) kill(ctx context.Context) error {
	defer s.during(unanswered)()
	s.p.kill()
	ready, err := s.p.start(ctx)
	if ready > 5*time.Second && !s.quick {
		s.r.note("ready %v after a kill, want 5s", ready.Round(time.Millisecond))
	}
	return err
}

// restart ends the proxy as an operator does, and starts it again.
func (s *soak) restart(ctx context.Context) error {
	defer s.during(unanswered)()
	ended := s.p.stop()
	_, err := s.p.start(ctx)
	return errors.Join(ended, err)
}

// freeze stops the process, as a migration of a virtual machine does. Answers are late, and nothing else.
func (s *soak) freeze(ctx context.Context) error {
	defer s.during(nothing)()
	if err := s.p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause(ctx, min(20*time.Second, s.hold/2))
	return s.p.signal(syscall.SIGCONT)
}

// operate runs verbs of operators beside the load.
func (s *soak) operate(ctx context.Context) error {
	defer s.during(nothing)()
	bundle := s.p.path("bundle")
	defer os.Remove(bundle)
	for _, args := range [][]string{
		{"gc"}, {"verify", "--read-data"}, {"ls"}, {"export", bundle}, {"ledger", "export", bundle + "-ledger"},
	} {
		if _, err := s.p.verb(ctx, args...); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return os.Remove(bundle + "-ledger")
}

// leave lets clients begin to receive packages, and go away.
func (s *soak) leave(ctx context.Context) error {
	defer s.during(nothing)()
	for range s.many(1000, 20) {
		c, err := s.dial(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", s.targets[rand.IntN(len(s.targets))].path(archive), s.p.address)
		io.ReadFull(c, make([]byte, 4<<10)) // any result is fine
		c.Close()
	}
	return nil
}

func (s *soak) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	return d.DialContext(ctx, "tcp", s.p.address)
}

// slow lets clients read a kilobyte a second, and others send no request.
func (s *soak) slow(ctx context.Context) error {
	defer s.during(nothing)()
	ctx, cancel := context.WithTimeout(ctx, s.hold)
	defer cancel()
	var group sync.WaitGroup
	for i := range s.many(700, 20) {
		group.Go(func() {
			c, err := s.dial(ctx)
			if err != nil {
				return
			}
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			if i%3 == 0 {
				fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", s.targets[i%len(s.targets)].path(archive), s.p.address)
			}
			for pause(ctx, time.Second) {
				if i%3 == 0 {
					_, err = io.CopyN(io.Discard, c, 1<<10)
				} else {
					_, err = io.WriteString(c, "G")
				}
				if err != nil {
					return // it may be cut off
				}
			}
		})
	}
	group.Wait()
	return nil
}

// absent requests modules that do not exist.
func (s *soak) absent(ctx context.Context) error {
	defer s.during(nothing)()
	c := &conn{address: s.p.address, timeout: 30 * time.Second}
	defer c.close()
	for i := range s.many(2000, 50) {
		path := fmt.Sprintf("/%s/v1/modules/acme/absent%d-%d/aws/versions", registryHost, i, time.Now().UnixNano())
		r := c.ask(ctx, path, s.p.tokens[0], false)
		if err := must("versions of no module", r, http.StatusNotFound); err != nil && ctx.Err() == nil {
			return err
		}
		if !pause(ctx, s.hold/5000) {
			break
		}
	}
	return nil
}

// revoke creates and revokes a token: within five seconds, it and its signed paths are invalid.
func (s *soak) revoke(ctx context.Context) error {
	defer s.during(nothing)()
	name := fmt.Sprint("gone", time.Now().UnixNano())
	token, err := s.p.token(ctx, name, "--scope", "*")
	if err != nil {
		return err
	}
	t := &target{module: s.targets[0].module, version: s.targets[0].version, token: token}
	c := &conn{address: s.p.address, timeout: 10 * time.Second}
	defer c.close()
	if err := s.until(ctx, 10*time.Second, func() error { return t.install(ctx, c) }); err != nil {
		return err
	}
	if _, err := s.p.verb(ctx, "token", "revoke", name); err != nil {
		return err
	}
	return s.until(ctx, 6*time.Second, func() error {
		return errors.Join(must("a revoked token", c.ask(ctx, t.path(download), token, false), http.StatusUnauthorized),
			must("a path signed for it", c.ask(ctx, t.path(archive), "", false), http.StatusUnauthorized))
	})
}

// until waits until inOrder returns nil, and returns its error after a while.
func (s *soak) until(ctx context.Context, most time.Duration, inOrder func() error) error {
	for began := time.Now(); ; {
		err := inOrder()
		if err == nil || time.Since(began) > most || !pause(ctx, 20*time.Millisecond) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// noRules is a file without rules.
const noRules = "rules: []\n"

// rules denies a module by the rules, and then allows it again.
func (s *soak) rules(ctx context.Context) error {
	defer s.during(nothing)()
	t := &target{module: moduleName("ruled", 1, 8<<10, 1), version: "1.0.0", token: s.p.tokens[0]}
	c := &conn{address: s.p.address, timeout: 10 * time.Second}
	defer c.close()
	for _, step := range []struct {
		rules  string
		status int
	}{
		{noRules, http.StatusNoContent},
		{"rules:\n  - deny: " + t.address() + "\n    reason: load\n", http.StatusForbidden},
		{noRules, http.StatusNoContent},
	} {
		if err := os.WriteFile(s.p.path("next.yaml"), []byte(step.rules), 0o600); err != nil {
			return err
		}
		if err := os.Rename(s.p.path("next.yaml"), s.p.path("rules.yaml")); err != nil {
			return err
		}
		if err := s.p.signal(syscall.SIGHUP); err != nil {
			return err
		}
		err := s.until(ctx, 5*time.Second, func() error {
			return must("a module under rules", c.ask(ctx, t.path(download), t.token, false), step.status)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// damage changes a byte of a stored package. No client may receive it: it is quarantined and fetched again.
func (s *soak) damage(ctx context.Context) error {
	defer s.during(nothing)()
	t := s.targets[rand.IntN(len(s.targets))]
	if err := flip(filepath.Join(s.p.data, "blobs", "v1", "sha256", t.digest[:2], t.digest)); err != nil {
		return err
	}
	c := &conn{address: s.p.address, timeout: 30 * time.Second}
	defer c.close()
	return s.until(ctx, 10*time.Second, func() error { // clients that were receiving it have no whole answer
		r, wrong := t.ask(ctx, c, archive)
		return errors.Join(wrong, must("a damaged package", r, http.StatusOK))
	})
}

// flip changes a byte in the middle of a file.
func flip(name string) (err error) {
	if err := os.Chmod(name, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var b [1]byte
	const at = 30 << 10
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = f.WriteAt(b[:], at)
	return err
}
