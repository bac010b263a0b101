package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
)

// A RemoteLedger is the ledger of a proxy. Each look-up is one request. The go command's client for checksum databases
// verifies it: a sum is in the tree that the proxy has signed, and every tree is a prefix of the next.
type RemoteLedger struct {
	client *sumdb.Client // requests each version once, and stores only the text of an error
	ops    *clientOps
	failed sync.Map // errors, by key
}

// DeprecationHeader is a header in the response to a look-up of a deprecated version. RFC 2047 encodes its text.
const DeprecationHeader = "Modproxy-Deprecation"

var _ interface {
	Ledger
	Deprecations
} = (*RemoteLedger)(nil)

// DialLedger returns the ledger of the proxy at the URL base. It sends the token unless the token is empty. If the verifier
// key is empty, it requests the key from the proxy itself. The answers are then consistent with each other, and not verified against a
// key that the caller knows. The ledger is usable until ctx ends.
func DialLedger(ctx context.Context, base, key, token string) (*RemoteLedger, error) {
	o := &clientOps{ctx: ctx, base: strings.TrimRight(base, "/") + "/-/sumdb", token: token}
	if key == "" {
		answer, err := o.ReadRemote("/key")
		if err != nil {
			return nil, err
		}
		key = strings.TrimSpace(string(answer))
	}
	v, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("%w: %.80q is not a verifier key: \"modproxy ledger key\" prints one", modproxy.ErrInvalid, key)
	}
	o.name, o.verifier = v.Name(), v
	o.base += "/" + url.PathEscape(o.name)
	o.config.Store("key", key)
	return &RemoteLedger{client: sumdb.NewClient(o), ops: o}, nil
}

// Lookup implements [Ledger].
func (l *RemoteLedger) Lookup(_ context.Context, v modproxy.Ref) (r modproxy.Record, err error) {
	key, err := ledger.Key(v)
	if err != nil {
		return r, err
	}
	l.ops.failed.Store(nil)
	if _, err := l.client.Lookup(key.Path, key.Version); err != nil {
		// The error has only the text of ReadRemote's error.
		if proof, _ := l.ops.proof.Load().(string); proof != "" || errors.Is(err, sumdb.ErrSecurity) {
			return r, fmt.Errorf("the ledger of the proxy was changed, or its proof is wrong: %.2000s", proof)
		}
		if failed := l.ops.failed.Load(); failed != nil {
			err = *failed
		} else if l.ops.isSignedByOthers() {
			err = hint.With(fmt.Errorf("%w: the ledger of the proxy is signed with another key than the given one", modproxy.ErrInvalid),
				`"modproxy ledger key" on the proxy prints its key`)
		}
		before, _ := l.failed.LoadOrStore(key, err)
		return r, before.(error)
	}
	// The client caches the checked record, and returns only the line of the sum.
	path, _ := module.EscapePath(key.Path) // a key of the ledger can always be escaped
	version, _ := module.EscapeVersion(key.Version)
	checked, _ := l.ops.ReadCache(l.ops.name + "/lookup/" + path + "@" + version)
	_, text, _, _ := tlog.ParseRecord(checked)
	r, err = ledger.ParseRecord(text)
	if err == nil && r.Ref != v {
		err = fmt.Errorf("%w: the ledger answers with a record of %s", modproxy.ErrInvalid, r.Ref)
	}
	return r, err
}

// Deprecation implements [Deprecations].
func (l *RemoteLedger) Deprecation(_ context.Context, v modproxy.Ref) string {
	key, _ := ledger.Key(v)
	path, _ := module.EscapePath(key.Path)
	version, _ := module.EscapeVersion(key.Version)
	text, _ := l.ops.deprecated.Load("/lookup/" + path + "@" + version)
	s, _ := text.(string)
	return s
}

// clientOps implements [sumdb.ClientOps] in memory.
type clientOps struct {
	ctx         context.Context
	base, token string
	name        string // the ledger's name
	verifier    note.Verifier

	config, cache sync.Map              // strings, by name
	deprecated    sync.Map              // strings, by the path of the look-up
	failed        atomic.Pointer[error] // why the last request failed
	proof         atomic.Value          // a string: the proof that the proxy misbehaved
}

const maxAnswer = 1 << 20 // bytes; a look-up and a tile are smaller

// ledgerClient does not follow redirects: a token is for one origin.
var ledgerClient = &http.Client{
	Timeout:       30 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (o *clientOps) ReadRemote(path string) (body []byte, err error) {
	defer func() {
		if err != nil {
			o.failed.Store(&err)
		}
	}()
	url := o.base + path
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
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	answered := fmt.Errorf("%s: %s", url, resp.Status)
	switch status := resp.StatusCode; {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", url, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", url, maxAnswer)
	case status == http.StatusOK:
		if text, err := new(mime.WordDecoder).DecodeHeader(resp.Header.Get(DeprecationHeader)); err == nil && text != "" {
			o.deprecated.Store(path, text)
		}
		return body, nil
	case status == http.StatusForbidden && reason(body) != "":
		return nil, kind{errors.New(reason(body)), modproxy.ErrDenied}
	case status == http.StatusNotFound:
		return nil, hint.With(kind{answered, fs.ErrNotExist}, "--url wants the URL of the proxy itself, which has a ledger")
	case status == http.StatusUnauthorized:
		return nil, hint.With(answered, "--token-file, or the variable TF_TOKEN_… of the proxy's host, gives the token")
	case 300 <= status && status < 400:
		return nil, hint.With(answered, "--url wants the URL of the proxy itself: redirects are not followed")
	}
	return nil, answered
}

// isSignedByOthers reports whether the ledger's tree has no signature with the verifier's key.
func (o *clientOps) isSignedByOthers() bool {
	tree, err := o.ReadRemote("/latest")
	if err == nil {
		_, err = note.Open(tree, note.VerifierList(o.verifier))
	}
	_, unverified := errors.AsType[*note.UnverifiedNoteError](err)
	return unverified
}

// reason returns the message of a proxy in the body of a denial.
func reason(body []byte) string {
	var answer struct{ Errors []string }
	if json.Unmarshal(body, &answer) != nil || len(answer.Errors) == 0 {
		return ""
	}
	return answer.Errors[0]
}

func (o *clientOps) ReadConfig(file string) ([]byte, error) {
	text, _ := o.config.LoadOrStore(file, "")
	return []byte(text.(string)), nil
}

func (o *clientOps) WriteConfig(file string, old, new []byte) error {
	if !o.config.CompareAndSwap(file, string(old), string(new)) {
		return sumdb.ErrWriteConflict
	}
	return nil
}

func (o *clientOps) ReadCache(file string) ([]byte, error) {
	if text, ok := o.cache.Load(file); ok {
		return []byte(text.(string)), nil
	}
	return nil, fs.ErrNotExist
}

func (o *clientOps) WriteCache(file string, data []byte) { o.cache.Store(file, string(data)) }

func (o *clientOps) Log(string) {}

func (o *clientOps) SecurityError(msg string) { o.proof.Store(msg) }
