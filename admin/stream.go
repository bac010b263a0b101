package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// stream answers with JSON objects, one in a line.
func stream(w http.ResponseWriter, f func(write func(line any))) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	flush := http.NewResponseController(w).Flush
	flushed := time.Now()
	f(func(line any) {
		_ = out.Encode(line) // a client that is gone ends the context
		if time.Since(flushed) > 100*time.Millisecond {
			_ = flush()
			flushed = time.Now()
		}
	})
}

// errCut is the error of a stream that ended before it said that it was complete.
var errCut = errors.New("the answer was cut off: the modproxy that serves may have ended")

// readStream calls f with each line of an answer until f returns an error or that
// the line was the last.
func readStream[T any](ctx context.Context, c *Client, method, path string, in any, f func(line T) (last bool, err error)) error {
	answer, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	for lines := json.NewDecoder(answer.Body); ; {
		var line T
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return errCut
		}
		if err != nil {
			return fmt.Errorf("%s: the answer was cut off: %w", path, err)
		}
		if last, err := f(line); last || err != nil {
			return err
		}
	}
}
