package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store/disk"
)

// fewBytes is the number of free bytes below which a disk counts as full. A package can need this much.
const fewBytes = 64 << 20

// dataDirectory examines the data directory, its file system and its content.
func (e *examination) dataDirectory(ctx context.Context) []Finding {
	c := e.Config
	at := c.Data
	_, err := os.Stat(at)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew { // modproxy would create it below the nearest existing directory
		if c.Offline {
			return []Finding{finding("offline_empty", at, "the directory does not exist")}
		}
		at = parentOf(at)
	} else if err := datadir.Check(at); err != nil {
		return []Finding{finding("data_refused", at, "%v", err).with(strings.Join(hint.Of(err), "; "))}
	}
	found, isWritable := e.fileSystem(at)
	if isNew || !isWritable {
		return found
	}
	if e.serving != nil {
		if len(found) == 0 {
			found = e.readiness(ctx)
		}
		return append(found, e.ownHost(ctx)...)
	}
	return append(found, e.storedData(ctx)...)
}

// parentOf returns the nearest existing directory above a path.
func parentOf(path string) string {
	path, err := filepath.Abs(path)
	for err == nil && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if _, missing := os.Stat(path); missing == nil {
			break
		}
	}
	return path
}

// fileSystem examines a directory and its file system. usable is false if writing fails for another reason than a
// full or read-only file system; the content of the directory is then not examined.
func (e *examination) fileSystem(dir string) (found []Finding, usable bool) {
	c := e.Config
	add := func(kind, format string, args ...any) {
		found = append(found, finding(kind, dir, format, args...))
	}
	fsys := fileSystemOf(dir)
	err := tryToWrite(dir)
	switch {
	case durable.NoInodes(err):
		add("inodes_full", "the file system has no free inode")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), err == nil && fsys.known && fsys.free < fewBytes:
		add("disk_full", "%s of %s are free", modproxy.SizeText(fsys.free), modproxy.SizeText(fsys.total))
	case errors.Is(err, syscall.EROFS) && !c.Offline:
		add("data_read_only", "stored packages are served, and no other ones")
	case errors.Is(err, syscall.EROFS):
	case err != nil:
		add("data_unwritable", "%v%s", err, ownerText(dir))
		return found, false
	}
	if fsys.network != "" {
		add("data_network", "the file system is %s", fsys.network)
	}
	if other := otherOwner(dir); other != "" {
		add("data_owner", "%s", other)
	}
	switch most := int64(c.Cache.MaxSize); {
	case fsys.known && most > fsys.total:
		add("cache_too_large", "cache.max_size is %s, and the file system has %s", c.Cache.MaxSize, modproxy.SizeText(fsys.total))
	case most == 0 && !c.Offline && c.IsSound("listen", "public_url", "trusted_proxies") && !c.IsLocal():
		found = append(found, finding("cache_unbounded", "cache.max_size", "it is not set, so packages fill the disk"))
	}
	return found, true
}

// tryToWrite creates a file with a few bytes in a directory, and removes it.
func tryToWrite(dir string) (err error) {
	f, err := os.CreateTemp(dir, "doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// fileSystem describes a file system.
type fileSystem struct {
	free, total int64  // in bytes; free are those that this user can use
	known       bool   // free and total are known
	network     string // the name of a network file system, such as NFS; empty for others
}

// readiness requests /-/readyz from the process that serves from the data directory. It does not read the data, because that process may be
// writing them.
func (e *examination) readiness(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	transport := &http.Transport{DialContext: e.serving, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/-/readyz", nil)
	if err != nil {
		return nil // the URL is a constant
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return []Finding{finding("not_ready", e.Config.Data, "the process that serves from it does not answer: %v", err)}
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // the status counts
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return []Finding{finding("not_ready", e.Config.Data, "%s: %s", answer.Status, strings.TrimSpace(string(text)))}
}

// storedData examines the index and the ledger. No process serves from the directory.
func (e *examination) storedData(ctx context.Context) (found []Finding) {
	c := e.Config
	remedy, problem := disk.Check(ctx, c.Data)
	isStored := disk.HasBlobs(c.Data)
	if problem != nil && ctx.Err() == nil {
		found = append(found, finding("index_damaged", filepath.Join(c.Data, "index.db"), "the index %v", problem).with("stop modproxy; then: "+remedy))
	} else if !isStored && c.Offline {
		found = append(found, finding("offline_empty", c.Data, "no package is stored"))
	}
	l, err := ledger.OpenReadOnly(c.LedgerDir())
	isEmpty := errors.Is(err, ledger.ErrNotCreated) || errors.Is(err, fs.ErrNotExist)
	if err == nil {
		isEmpty = !l.HasRecords()
		l.Close()
	}
	switch {
	case isEmpty && isStored:
		found = append(found, finding("ledger_missing", c.LedgerDir(), "packages are stored, and it has no record"))
	case err != nil && !isEmpty:
		found = append(found, finding("ledger_damaged", c.LedgerDir(), "%v", err))
	}
	return append(found, e.ownHost(ctx)...)
}

// ownHost compares the host of own modules with the ledger, also while a process with an earlier configuration serves.
func (e *examination) ownHost(ctx context.Context) []Finding {
	l, err := ledger.OpenReadOnly(e.Config.LedgerDir())
	if err != nil {
		return nil // storedData and readiness report it
	}
	defer l.Close()
	if err := app.CheckOwnHost(ctx, e.Config, l); err != nil {
		return []Finding{finding("modules_host_changed", "modules_host", "%v", err).with(strings.Join(hint.Of(err), "; "))}
	}
	return nil
}

// tokens examines the file of tokens.
func (e *examination) tokens(context.Context) []Finding {
	c := e.Config
	tokens, err := auth.OpenTokens(c.TokensFile())
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil // the check of the data directory reports it
	} else if err != nil {
		return []Finding{finding("tokens_damaged", c.TokensFile(), "%v", err)}
	}
	if !c.RequiresToken() || len(c.Auth.Issuers) > 0 {
		return nil
	}
	list, err := tokens.List()
	for _, t := range list {
		if t.Live(time.Now()) {
			return nil
		}
	}
	why := fmt.Sprintf("clients need a token: %s", c.RequiresTokenBecause())
	if err != nil {
		why += fmt.Sprintf("; %v", err)
	}
	return []Finding{finding("no_token", c.TokensFile(), "%s", why)}
}
