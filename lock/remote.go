package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

// A RemoteLedger is the ledger of a proxy, asked one question at a time. The client
// that the go command has for checksum databases checks it: a sum that it gives is in
// the tree that the proxy has signed, and every tree that it has seen is a beginning
// of the next.
type RemoteLedger struct {
	client *sumdb.Client
	ops    *clientOps
}

var _ Ledger = (*RemoteLedger)(nil)

// DialLedger returns the ledger of the proxy at a URL, which is shown a token unless
// that is empty. Without a verifier key the proxy is asked for its own. The ledger can
// be asked until ctx ends.
func DialLedger(ctx context.Context, base, key, token string) (*RemoteLedger, error) {
	o := &clientOps{ctx: ctx, base: strings.TrimRight(base, "/") + "/-/sumdb", token: token, kept: map[string][]byte{}}
	if key == "" {
		answer, err := o.ReadRemote("/key")
		if err != nil {
			return nil, err
		}
		key = strings.TrimSpace(string(answer))
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %.80q is no verifier key: \"modproxy ledger key\" prints one", modproxy.ErrInvalid, key)
	}
	o.name = v.Name()
	o.base += "/" + url.PathEscape(o.name)
	o.kept["config/key"] = []byte(key)
	return &RemoteLedger{sumdb.NewClient(o), o}, nil
}

// Lookup implements [Ledger].
func (l *RemoteLedger) Lookup(_ context.Context, v modproxy.ModuleVersion) (modproxy.Record, error) {
	key, err := ledger.Key(v)
	if err != nil {
		return modproxy.Record{}, err
	}
	l.ops.mu.Lock()
	l.ops.failed = nil
	l.ops.mu.Unlock()
	if _, err := l.client.Lookup(key.Path, key.Version); err != nil {
		return modproxy.Record{}, l.ops.explain(err)
	}
	// The client keeps what it has checked, and gives the line of the sum alone.
	checked, err := l.ops.ReadCache(l.ops.name + "/lookup/" + escape(key))
	if err != nil {
		return modproxy.Record{}, err
	}
	_, text, _, err := tlog.ParseRecord(checked)
	if err != nil {
		return modproxy.Record{}, fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
	}
	r, err := ledger.ParseRecord(text)
	if err == nil && r.ModuleVersion != v {
		err = fmt.Errorf("%w: the ledger answers with a record of %s", modproxy.ErrInvalid, r.ModuleVersion)
	}
	return r, err
}

// escape returns a key as it is in paths.
func escape(key module.Version) string {
	path, _ := module.EscapePath(key.Path) // every key of a ledger can be
	version, _ := module.EscapeVersion(key.Version)
	return path + "@" + version
}

// clientOps implements [sumdb.ClientOps]. What it keeps is in memory.
type clientOps struct {
	ctx         context.Context
	base, token string
	name        string // of the ledger

	mu     sync.Mutex
	kept   map[string][]byte
	failed error  // why the last request failed
	proof  string // of misbehaviour
}

// maxAnswer is more than a lookup or a tile has, in bytes.
const maxAnswer = 1 << 20

// ledgerClient follows no redirect: a token is for one origin.
var ledgerClient = &http.Client{
	Timeout:       30 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ReadRemote implements [sumdb.ClientOps].
func (o *clientOps) ReadRemote(path string) ([]byte, error) {
	body, err := o.get(o.base + path)
	if err != nil {
		o.mu.Lock()
		o.failed = err
		o.mu.Unlock()
	}
	return body, err
}

func (o *clientOps) get(url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(o.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if o.token != "" {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	resp, err := ledgerClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	answered := fmt.Errorf("%s: %s", url, resp.Status)
	switch status := resp.StatusCode; {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", url, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", url, maxAnswer)
	case status == http.StatusOK:
		return body, nil
	case status == http.StatusNotFound:
		return nil, hint.With(notFound{answered}, "--url wants the URL of the proxy itself, which has a ledger")
	case status == http.StatusUnauthorized:
		return nil, hint.With(answered, "--token-file, or the variable TF_TOKEN_… of the proxy's host, gives the token")
	case 300 <= status && status < 400:
		return nil, hint.With(answered, "--url wants the URL of the proxy itself: redirects are not followed")
	}
	return nil, answered
}

// notFound makes an error [fs.ErrNotExist], and leaves its text as it is.
type notFound struct{ error }

func (notFound) Is(target error) bool { return target == fs.ErrNotExist }

// explain returns what is behind an error of the client, which has only the text of
// the error of ReadRemote.
func (o *clientOps) explain(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.Is(err, sumdb.ErrSecurity) || o.proof != "":
		return fmt.Errorf("the ledger of the proxy is not what it was, or not what it says: %.2000s", o.proof)
	case o.failed != nil:
		return o.failed
	}
	return err
}

// ReadConfig implements [sumdb.ClientOps].
func (o *clientOps) ReadConfig(file string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept["config/"+file], nil
}

// WriteConfig implements [sumdb.ClientOps].
func (o *clientOps) WriteConfig(file string, old, new []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !bytes.Equal(o.kept["config/"+file], old) {
		return sumdb.ErrWriteConflict
	}
	o.kept["config/"+file] = new
	return nil
}

// ReadCache implements [sumdb.ClientOps].
func (o *clientOps) ReadCache(file string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, ok := o.kept["cache/"+file]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

// WriteCache implements [sumdb.ClientOps].
func (o *clientOps) WriteCache(file string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept["cache/"+file] = data
}

// Log implements [sumdb.ClientOps].
func (o *clientOps) Log(string) {}

// SecurityError implements [sumdb.ClientOps].
func (o *clientOps) SecurityError(msg string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.proof = msg
}
