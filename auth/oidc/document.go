package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	neturl "net/url"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxDocument = 1 << 20 // bytes
	maxKeys     = 50
)

// get is a document of an issuer.
func get(ctx context.Context, client *http.Client, url string) (document []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		var said *neturl.Error
		if errors.As(err, &said) {
			err = said.Err // it has the URL, with its query; the transport says where it failed
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: answered with status %d", redacted(request.URL), answer.StatusCode)
	}
	document, err = io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err == nil && len(document) > maxDocument {
		err = fmt.Errorf("%s: longer than %d bytes", redacted(request.URL), maxDocument)
	}
	return document, err
}

// redacted is a URL without its query.
func redacted(u *neturl.URL) string { return u.Scheme + "://" + u.Host + u.Path }

// parseDiscovery is where the keys of an issuer are, by its discovery document.
func parseDiscovery(document []byte, issuer string) (string, error) {
	var d struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(document, &d); {
	case err != nil:
		return "", err
	case d.Issuer != issuer:
		return "", fmt.Errorf("it is of %.200q", d.Issuer)
	}
	if err := checkURL(d.Keys); err != nil {
		return "", fmt.Errorf("jwks_uri %.200q: %w", d.Keys, err)
	}
	return d.Keys, nil
}

// parseKeys are the keys of a JSON Web Key Set that sign. Others are passed over,
// as RFC 7517, section 5, wants it.
func parseKeys(document []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("%d keys, more than the %d that are allowed", len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err == nil && signs(&key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there is none that signs")
	}
	return keys, nil
}

// signs reports whether a key is public, of a kind and size that is good, and for
// signatures.
func signs(key *jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return 2048 <= public.N.BitLen() && public.N.BitLen() <= 8192
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}
