// Package webhook receives webhooks of git forges. Each is a request to look at a repository now, and nothing else.
//
//	receiver := webhook.New(map[string]egress.Secret{"github": secret}, look)
//	go receiver.Run(ctx)
//	err := receiver.Handle(w, r) // POST /-/hooks/github
//
// Invariants:
//
//   - A request without a valid signature has no effect. Its answer does not depend on whether a webhook with its ID exists.
//   - A repeated webhook is harmless: a repository is looked at at most once a second, and one look follows all webhooks before it.
//   - Text of a webhook is only compared. It is never a URL that modproxy requests.
//
// The forges specify their signatures and events at
//
//   - https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
//   - https://docs.gitlab.com/user/project/integrations/webhooks/
//   - https://docs.gitea.com/usage/webhooks
//   - https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/
//   - https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html
package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/protocol"
)

// Path is the beginning of the path of a webhook. Its ID follows.
const Path = "/-/hooks/"

const (
	// maxBody is the maximum size of an event in bytes. Events of tags have a few KiB; only a push of many commits is larger.
	maxBody    = 1 << 20
	maxReading = 16              // events in memory; those of one client take half of them
	maxClients = 1 << 10         // requests that wait for a place among them
	readWait   = 3 * time.Second // of such a request

	maxWaiting = 256         // repositories that wait for a look, or were looked at in the last second
	maxLooks   = 8           // repositories that are looked at at the same time; those of one host take half of them
	pause      = time.Second // between two looks at a repository
)

// A Receiver verifies webhooks, and looks at their repositories. It is safe for concurrent use.
type Receiver struct {
	secrets map[string]egress.Secret // by ID
	unknown egress.Secret            // of webhooks without an entry in secrets
	look    func(ctx context.Context, repository string)

	reading *slots.Queue // shared by clients
	looking *slots.Queue // shared by hosts
	begin   chan string

	mu  sync.Mutex
	due map[string]bool // waiting repositories; false: the present look is enough
}

// New returns a Receiver of webhooks with these secrets, by ID. look is called with the name of a repository, as [Name] returns it,
// from several goroutines, but never twice at the same time for one repository.
func New(secrets map[string]egress.Secret, look func(ctx context.Context, repository string)) *Receiver {
	return &Receiver{
		secrets: secrets, unknown: egress.NewSecret(rand.Text()), look: look,
		reading: slots.New(maxReading, maxReading/2, 1, maxClients), looking: slots.New(maxLooks, maxLooks/2, 1, maxWaiting),
		begin: make(chan string, maxWaiting), due: map[string]bool{},
	}
}

var (
	errContentType = errors.New("set the content type of the webhook to application/json")
	errTooLarge    = fmt.Errorf("the event has more than %d bytes: send events of tags only", maxBody)
	errBusy        = errors.New("too many webhooks are being received")
)

// unsigned is the error of a request without a valid signature.
type unsigned struct{ why string }

func (unsigned) Error() string {
	return "the signature of the webhook is missing or wrong: its secret must be that of the configuration"
}

// Inside returns the text for the log.
func (u unsigned) Inside() string { return u.why }

// Handle answers a request: 202 after the repository of the event waits for its look. It has the meaning of Handle in a Mount of
// package proxy.
func (r *Receiver) Handle(w http.ResponseWriter, q *http.Request) error {
	kind, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || q.Header.Get("Content-Encoding") != "" {
		return protocol.WithStatus(http.StatusUnsupportedMediaType, errContentType)
	}
	repositories, err := r.receive(w, q)
	if err != nil {
		return err
	}
	for _, repository := range repositories {
		if err := r.want(repository); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusAccepted)
	if len(repositories) == 0 {
		_, err = io.WriteString(w, "the event names no repository\n")
	} else {
		_, err = fmt.Fprintf(w, "accepted: %q\n", repositories)
	}
	return err
}

// receive reads and verifies an event, and returns the names of its repositories.
func (r *Receiver) receive(w http.ResponseWriter, q *http.Request) ([]string, error) {
	waiting, cancel := context.WithTimeout(q.Context(), readWait)
	defer cancel()
	client := modproxy.ClientOf(waiting).Name
	if r.reading.Take(waiting, client) != nil { // at the end of waiting, or if too many wait
		return nil, later(errBusy)
	}
	defer r.reading.Give(client)
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, protocol.WithStatus(http.StatusRequestEntityTooLarge, errTooLarge)
	} else if err != nil {
		return nil, protocol.Invalid(fmt.Errorf("the event is cut off: %w", err))
	}
	id := strings.TrimPrefix(q.URL.Path, Path)
	secret, isKnown := r.secrets[id]
	if !isKnown {
		secret = r.unknown
	}
	switch isSigned := signed(q.Header, body, secret.Reveal()); {
	case !isKnown:
		return nil, protocol.WithStatus(http.StatusForbidden, unsigned{fmt.Sprintf("webhooks has no entry with the id %.80q", id)})
	case !isSigned:
		return nil, protocol.WithStatus(http.StatusForbidden, unsigned{"webhooks has an entry with this id, and another secret"})
	}
	repositories, err := namesIn(body)
	if err != nil {
		return nil, protocol.Invalid(fmt.Errorf("the event is not JSON: %w", err))
	}
	return repositories, nil
}

func later(err error) error {
	return &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: err}
}

// want makes a look at a repository due.
func (r *Receiver) want(repository string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, isWaiting := r.due[repository]; !isWaiting {
		if len(r.due) == maxWaiting {
			return later(errors.New("too many other repositories are waiting"))
		}
		r.begin <- repository // it has room for all waiting ones
	}
	r.due[repository] = true
	return nil
}

// Run looks at repositories until ctx ends, and returns when the last look has ended.
func (r *Receiver) Run(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	for {
		select {
		case repository := <-r.begin:
			looks.Go(func() { r.lookWhileDue(ctx, repository) })
		case <-ctx.Done():
			return
		}
	}
}

// lookWhileDue looks at a repository, and again if a webhook arrived after the beginning of a look.
func (r *Receiver) lookWhileDue(ctx context.Context, repository string) {
	host, _, _ := strings.Cut(repository, "/")
	for {
		if r.looking.Take(ctx, host) != nil { // the program stops
			return
		}
		r.mu.Lock()
		r.due[repository] = false
		r.mu.Unlock()
		r.look(ctx, repository)
		r.looking.Give(host)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if !r.isDue(repository) {
			return
		}
	}
}

// isDue reports whether another look at a repository is due. If not, the repository no longer waits.
func (r *Receiver) isDue(repository string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	isDue := r.due[repository]
	if !isDue {
		delete(r.due, repository)
	}
	return isDue
}
