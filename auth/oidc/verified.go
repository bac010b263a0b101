package oidc

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/modproxy/modproxy/auth"
)

const (
	remember    = time.Minute // for how long a token that was good is
	maxVerified = 4096        // tokens in a generation
)

// verified remembers tokens that were good, by their hash, in two generations:
// when the young one is full, the old one is forgotten. The zero verified is empty.
type verified struct {
	mu    sync.RWMutex
	young map[[sha256.Size]byte]good
	old   map[[sha256.Size]byte]good
}

type good struct {
	principal auth.Principal
	at        time.Time // with a monotonic reading
}

// sum is the hash of a token.
func sum(text string) [sha256.Size]byte {
	var onStack [4096]byte
	if len(text) <= len(onStack) {
		return sha256.Sum256(onStack[:copy(onStack[:], text)])
	}
	return sha256.Sum256([]byte(text))
}

// get is the principal of a token that was good less than a minute ago and has not
// expired.
func (v *verified) get(hash [sha256.Size]byte, now, latest time.Time) (auth.Principal, bool) {
	v.mu.RLock()
	g, ok := v.young[hash]
	if !ok {
		g, ok = v.old[hash]
	}
	v.mu.RUnlock()
	age := now.Sub(g.at)
	if !ok || age < -remember || age >= remember || !latest.Before(g.principal.Until) {
		return auth.Principal{}, false
	}
	return g.principal, true
}

func (v *verified) put(hash [sha256.Size]byte, p auth.Principal, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.young == nil || len(v.young) >= maxVerified {
		v.old, v.young = v.young, map[[sha256.Size]byte]good{}
	}
	v.young[hash] = good{p, now}
}
