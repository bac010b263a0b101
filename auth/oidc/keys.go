package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy"
)

const (
	maxAge     = time.Hour        // keys that are older are fetched again
	retryStale = time.Minute      // between attempts to do so
	retryKey   = 10 * time.Second // between attempts to find a key that is not known
	fetchTime  = 10 * time.Second // for one attempt
)

var errKeys = errors.New("the issuer's keys cannot be fetched")

// keySet is the keys of an issuer.
type keySet struct {
	issuer  string
	client  *http.Client
	observe func(issuer string, err error)

	mu     sync.Mutex
	keys   []jose.JSONWebKey // replaced as a whole
	got    time.Time         // when they were fetched
	tried  time.Time         // when that was last attempted
	failed bool              // how the last attempt ended
	done   chan struct{}     // closed when the attempt that runs ends; nil if none runs
}

func newKeySet(issuer string, cfg Config) *keySet {
	k := &keySet{issuer: issuer, observe: cfg.Observe, client: &http.Client{
		Transport:     cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if k.observe == nil {
		k.observe = func(string, error) {}
	}
	return k
}

// attempt is a keySet at a moment, for one token.
type attempt struct {
	keys *keySet
	now  time.Time
	err  error // how it ended
}

// VerifySignature implements the key set of the verifier, which has held the
// token to the allowed algorithms.
func (a *attempt) VerifySignature(ctx context.Context, text string) (payload []byte, err error) {
	payload, a.err = a.keys.verify(ctx, text, a.now)
	return payload, a.err
}

var joseAlgorithms = func() (all []jose.SignatureAlgorithm) {
	for _, name := range allowed {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}()

// verify is the payload of a token that one of the keys signed.
func (k *keySet) verify(ctx context.Context, text string, now time.Time) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(text, joseAlgorithms)
	if err != nil {
		return nil, err
	}
	if err := k.renew(ctx, now); err != nil {
		return nil, err
	}
	payload, err := signedBy(k.current(), jws)
	if !errors.Is(err, errNoKey) {
		return payload, err
	}
	// The issuer may have a new key (openid-connect-core-1_0, section 10.1.1).
	if err := wait(ctx, k.fetch(now, retryKey)); err != nil {
		return nil, err
	}
	payload, err = signedBy(k.current(), jws)
	if errors.Is(err, errNoKey) && k.lastFailed() {
		return nil, errKeys
	}
	return payload, err
}

var errNoKey = errors.New("the issuer has no key that it can be signed with")

// signedBy is the payload that one of keys signed; errNoKey if none may have.
func signedBy(keys []jose.JSONWebKey, jws *jose.JSONWebSignature) ([]byte, error) {
	header := jws.Signatures[0].Header
	err := errNoKey
	for _, key := range keys {
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		payload, bad := jws.Verify(key.Key)
		if bad == nil {
			return payload, nil
		}
		if header.KeyID != "" {
			err = fmt.Errorf("signature: %w", bad)
		}
	}
	return nil, err
}

// renew fetches keys that are old. It waits for that only if nobody has tried to
// for long: else the keys that are known have to do.
func (k *keySet) renew(ctx context.Context, now time.Time) error {
	k.mu.Lock()
	old, idle := now.Sub(k.got) > maxAge, now.Sub(k.tried) > maxAge
	k.mu.Unlock()
	if !old {
		return nil
	}
	if done := k.fetch(now, retryStale); idle {
		return wait(ctx, done)
	}
	return nil
}

func wait(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *keySet) current() []jose.JSONWebKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

func (k *keySet) lastFailed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// fetch is the attempt that runs, or a new one unless the last was less than a
// pause before now: then nil.
func (k *keySet) fetch(now time.Time, pause time.Duration) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done != nil {
		return k.done
	}
	if now.Sub(k.tried) < pause {
		return nil
	}
	k.tried, k.done = now, make(chan struct{})
	go k.run(now)
	return k.done
}

// run is an attempt. It outlives who started it, for the others who wait.
func (k *keySet) run(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	keys, err := k.ask(ctx)
	k.mu.Lock()
	if k.failed = err != nil; !k.failed {
		k.keys, k.got = keys, now
	}
	close(k.done)
	k.done = nil
	k.mu.Unlock()
	defer func() { _ = recover() }() // nobody is left to tell
	k.observe(k.issuer, err)
}

// ask asks the issuer where its keys are, and for them. A panic about what the
// issuer answered is an attempt that failed.
func (k *keySet) ask(ctx context.Context) (keys []jose.JSONWebKey, err error) {
	defer func() {
		if p := recover(); p != nil {
			keys, err = nil, modproxy.Fault(p)
		}
	}()
	document, err := get(ctx, k.client, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	where, err := parseDiscovery(document, k.issuer)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	if document, err = get(ctx, k.client, where); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if keys, err = parseKeys(document); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return keys, nil
}
