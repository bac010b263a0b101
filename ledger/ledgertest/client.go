package ledgertest

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb"
)

// Client is a checksum database client, the one that the go command has, with a
// memory instead of a disk. It is safe for concurrent use.
type Client struct {
	*sumdb.Client
	ops *clientOps
}

// NewClient is a client that trusts the key, has seen nothing and asks under the
// URL, to which it adds /lookup/… and the like.
func NewClient(url, verifierKey string) *Client {
	ops := &clientOps{url: url, key: verifierKey, config: map[string][]byte{}, cache: map[string][]byte{}}
	return &Client{sumdb.NewClient(ops), ops}
}

// Restart is a new client that has on its disk what c has, but for the records
// that c looked up, and asks under the URL.
func (c *Client) Restart(url string) *Client {
	c.ops.mu.Lock()
	defer c.ops.mu.Unlock()
	n := NewClient(url, c.ops.key)
	maps.Copy(n.ops.config, c.ops.config)
	maps.Copy(n.ops.cache, c.ops.cache)
	maps.DeleteFunc(n.ops.cache, func(name string, _ []byte) bool { return strings.Contains(name, "/lookup/") })
	return n
}

// SecurityErrors are the proofs of misbehaviour that the client has found.
func (c *Client) SecurityErrors() []string {
	c.ops.mu.Lock()
	defer c.ops.mu.Unlock()
	return c.ops.security
}

type clientOps struct {
	url, key string

	mu       sync.Mutex
	config   map[string][]byte
	cache    map[string][]byte
	security []string
}

func (o *clientOps) ReadRemote(path string) ([]byte, error) {
	resp, err := http.Get(o.url + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

func (o *clientOps) ReadConfig(file string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if file == "key" {
		return []byte(o.key), nil
	}
	return o.config[file], nil
}

func (o *clientOps) WriteConfig(file string, old, new []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !bytes.Equal(o.config[file], old) {
		return sumdb.ErrWriteConflict
	}
	o.config[file] = new
	return nil
}

func (o *clientOps) ReadCache(file string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, ok := o.cache[file]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (o *clientOps) WriteCache(file string, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cache[file] = data
}

func (o *clientOps) Log(string) {}

func (o *clientOps) SecurityError(msg string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.security = append(o.security, msg)
}
