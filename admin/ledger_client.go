package admin

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
)

// Records returns the chosen records of the ledger, in the order in which they were
// added.
func (c *Client) Records(ctx context.Context, q Query) ([]Record, error) {
	var out struct{ Records []Record }
	err := c.ask(ctx, "GET", "ledger/records?"+q.values(), nil, &out)
	return out.Records, err
}

// Drift returns the chosen observations of the ledger, in the order in which they
// were made.
func (c *Client) Drift(ctx context.Context, q Query) ([]Drift, error) {
	var out struct{ Drift []Drift }
	err := c.ask(ctx, "GET", "ledger/drift?"+q.values(), nil, &out)
	return out.Drift, err
}

// VerifierKey returns the key that verifies the ledger.
func (c *Client) VerifierKey(ctx context.Context) (string, error) {
	var out struct{ Key string }
	err := c.ask(ctx, "GET", "ledger/key", nil, &out)
	return out.Key, err
}

// Export writes the whole ledger, and returns how many records and observations
// that were.
func (c *Client) Export(ctx context.Context, w io.Writer) (records int64, err error) {
	answer, err := c.send(ctx, "GET", "ledger/export", nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(w, answer.Body); err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	return strconv.ParseInt(answer.Header.Get(recordsHeader), 10, 64)
}

// Import adds the records of an export that the ledger lacks, and returns how many
// those were. The export is signed with the ledger's own key, or one of keys.
func (c *Client) Import(ctx context.Context, from io.Reader, keys []string) (added int64, err error) {
	var out struct{ Added int64 }
	err = c.ask(ctx, "POST", "ledger/import?"+url.Values{"key": keys}.Encode(), from, &out)
	return out.Added, err
}

// Accept makes other content of a version count.
func (c *Client) Accept(ctx context.Context, in Acceptance) (out Accepted, err error) {
	err = c.ask(ctx, "POST", "ledger/accept", in, &out)
	return out, err
}
