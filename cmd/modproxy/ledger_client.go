package main

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
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

// remoteLedger is the ledger of a proxy, asked one question at a time. The client
// that the go command has for checksum databases checks it: a sum that it gives is
// in the tree that the proxy has signed, and every tree that it has seen is a
// beginning of the next.
type remoteLedger struct {
	client *sumdb.Client
	ops    *sumdbOps
}

// newRemoteLedger asks the proxy at a URL, with a bearer token unless that is
// empty. Without a verifier key the proxy is asked for its own.
func newRemoteLedger(ctx context.Context, base, key, token string) (*remoteLedger, error) {
	o := &sumdbOps{ctx: ctx, base: strings.TrimRight(base, "/") + strings.TrimSuffix(app.SumDBPath, "/"), token: token, kept: map[string][]byte{}}
	if key == "" {
		said, err := o.ReadRemote("/key")
		if err != nil {
			return nil, err
		}
		key = strings.TrimSpace(string(said))
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %.80q is no verifier key: \"modproxy ledger key\" prints one", modproxy.ErrInvalid, key)
	}
	o.name = v.Name()
	o.base += "/" + url.PathEscape(o.name)
	o.kept["config/key"] = []byte(key)
	return &remoteLedger{sumdb.NewClient(o), o}, nil
}

// record is what counts for a version; [fs.ErrNotExist] if there is nothing.
func (l *remoteLedger) record(_ context.Context, v modproxy.ModuleVersion) (ledger.Record, error) {
	key, err := ledger.Key(v)
	if err != nil {
		return ledger.Record{}, err
	}
	l.ops.mu.Lock()
	l.ops.said = nil
	l.ops.mu.Unlock()
	if _, err := l.client.Lookup(key.Path, key.Version); err != nil {
		return ledger.Record{}, l.ops.explain(err)
	}
	// The client keeps what it has checked, and gives the line of the sum alone.
	checked, err := l.ops.ReadCache(l.ops.name + "/lookup/" + escape(key))
	if err != nil {
		return ledger.Record{}, err
	}
	_, text, _, err := tlog.ParseRecord(checked)
	if err != nil {
		return ledger.Record{}, fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
	}
	r, err := ledger.ParseRecord(text)
	if err == nil && r.ModuleVersion != v {
		err = fmt.Errorf("%w: the ledger answers with a record of %s", modproxy.ErrInvalid, r.ModuleVersion)
	}
	return r, err
}

// escape is a key as it stands in paths; it is one that can.
func escape(key module.Version) string {
	path, _ := module.EscapePath(key.Path)
	version, _ := module.EscapeVersion(key.Version)
	return path + "@" + version
}

// sumdbOps are what a [sumdb.Client] needs. What it keeps is in memory.
type sumdbOps struct {
	ctx         context.Context
	base, token string
	name        string // of the ledger

	mu    sync.Mutex
	kept  map[string][]byte
	said  error  // of the last request that failed
	proof string // of misbehaviour
}

// maxSumdbAnswer is more than a lookup or a tile has, in bytes.
const maxSumdbAnswer = 1 << 20

// sumdbHTTP goes where the URL says, and nowhere that an answer says: a token is for
// one origin.
var sumdbHTTP = &http.Client{
	Timeout:       30 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ReadRemote implements [sumdb.ClientOps].
func (o *sumdbOps) ReadRemote(path string) ([]byte, error) {
	body, err := o.ask(path)
	if err != nil {
		o.mu.Lock()
		o.said = err
		o.mu.Unlock()
	}
	return body, err
}

func (o *sumdbOps) ask(path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(o.ctx, http.MethodGet, o.base+path, nil)
	if err != nil {
		return nil, err
	}
	if o.token != "" {
		r.Header.Set("Authorization", "Bearer "+o.token)
	}
	resp, err := sumdbHTTP.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxSumdbAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", o.base+path, err)
	case len(body) > maxSumdbAnswer:
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", o.base+path, maxSumdbAnswer)
	case resp.StatusCode == http.StatusNotFound:
		return nil, hint.With(absent(fmt.Sprintf("%s: %s", o.base+path, resp.Status)), "--url wants the URL of the proxy itself, which has a ledger")
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, hint.With(fmt.Errorf("%s: %s", o.base+path, resp.Status), "--token-file, or the variable TF_TOKEN_… of the proxy's host, says who asks")
	case 300 <= resp.StatusCode && resp.StatusCode < 400:
		return nil, hint.With(fmt.Errorf("%s: %s", o.base+path, resp.Status), "--url wants the URL of the proxy itself: redirects are not followed")
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", o.base+path, resp.Status)
	}
	return body, nil
}

// explain is err of the client with what is behind it: the client has only the
// text of what ReadRemote said.
func (o *sumdbOps) explain(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.Is(err, sumdb.ErrSecurity) || o.proof != "":
		return fmt.Errorf("the ledger of the proxy is not what it was, or not what it says: %.2000s", o.proof)
	case o.said != nil:
		return o.said
	}
	return err
}

// ReadConfig implements [sumdb.ClientOps].
func (o *sumdbOps) ReadConfig(file string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept["config/"+file], nil
}

// WriteConfig implements [sumdb.ClientOps].
func (o *sumdbOps) WriteConfig(file string, old, new []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !bytes.Equal(o.kept["config/"+file], old) {
		return sumdb.ErrWriteConflict
	}
	o.kept["config/"+file] = new
	return nil
}

// ReadCache implements [sumdb.ClientOps].
func (o *sumdbOps) ReadCache(file string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, ok := o.kept["cache/"+file]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

// WriteCache implements [sumdb.ClientOps].
func (o *sumdbOps) WriteCache(file string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept["cache/"+file] = data
}

// Log implements [sumdb.ClientOps].
func (o *sumdbOps) Log(string) {}

// SecurityError implements [sumdb.ClientOps].
func (o *sumdbOps) SecurityError(msg string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.proof = msg
}
