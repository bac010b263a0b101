package git

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// resolveDirect is resolve by this package's own requests in protocol v2: one for a commit id, two for a name. If git
// has to fetch instead, the error is an otherwise.
func (r *repository) resolveDirect(ctx context.Context, ref string) (commit string, err error) {
	id := strings.ToLower(ref)
	if !isObjectID(ref) {
		found := seek(ref)
		err = r.listDirect(ctx, found)
		switch id = found.commit; {
		case err != nil:
			return "", err
		case id == "" && isAbbreviated(ref):
			return "", &otherwise{says: "nothing about an abbreviated id", passes: true}
		case id == "":
			return "", errNoSuchRef
		}
	}
	err = r.fetchDirect(ctx, id)
	if isSilent(err) && isObjectID(ref) {
		err = r.otherFormat(ctx, formatOf(id))
	}
	if err != nil {
		return "", err
	}
	if r.hasCommit(id) {
		return id, nil
	}
	commit, err = r.commitOf(ctx, id)
	if _, ended := errors.AsType[*exitError](err); ended {
		return "", unexpected("a pack without the commit")
	}
	return commit, err
}

// formats lists the formats of object ids. A server does not answer requests in a format other than the repository's.
var formats = []string{"sha1", "sha256"}

// listDirect passes the remote's list of refs to l.
func (r *repository) listDirect(ctx context.Context, l refReader) (err error) {
	for _, format := range formats {
		if _, err = r.listIn(ctx, l, format); !isSilent(err) {
			break
		}
	}
	return r.refused(ctx, err)
}

// listIn passes the remote's list of refs, requested in the given format, to l. its is the format of the listed ids.
func (r *repository) listIn(ctx context.Context, l refReader, format string) (its string, err error) {
	err = r.ask(ctx, listQuestion(l, format), func(answer io.ReadCloser) (err error) {
		its, err = readRefs(newPackets(answer), l)
		return err
	})
	return its, err
}

// otherFormat returns the reason why a server did not answer about an id of the given format: the repository has
// another format, or the server does not answer at all.
func (r *repository) otherFormat(ctx context.Context, format string) error {
	other := formats[0]
	if format == other {
		other = formats[1]
	}
	its, err := r.listIn(ctx, seek(""), other)
	switch {
	case err != nil:
		return err
	case its == format:
		return unexpected("a list of refs in a format that was not asked for")
	}
	return errFormat(other)
}

// fetchDirect fetches one commit, or a tag with its commit, into an empty repository.
func (r *repository) fetchDirect(ctx context.Context, id string) error {
	return r.ask(ctx, fetchQuestion(id), func(answer io.ReadCloser) error {
		from, format := newPackets(answer), formatOf(id)
		shallow, err := readSections(from, format)
		if err != nil {
			return err
		}
		if err := r.init(format); err != nil {
			return err
		}
		if shallow != "" {
			err := os.WriteFile(filepath.Join(r.dir, "shallow"), []byte(shallow+"\n"), 0o600)
			if err != nil {
				return errUnavailable(err)
			}
		}
		running, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		c := r.git("index-pack", "--stdin", "--strict="+fsckLevels(), "--max-input-size="+strconv.FormatInt(r.limit, 10))
		c.stdin = &packfile{from: from, body: answer, fail: fail}
		err = c.run(running)
		if exit, ok := errors.AsType[*exitError](err); ok && outOfSpace(exit.stderr) == nil {
			why := scrub(exit.stderr, false, r.secrets...)
			return &otherwise{says: "a pack that git refuses" + why, passes: true, refused: true} // packs of other commits may be accepted
		}
		if err = broken(err); err == nil && diskUse(r.dir) > r.limit {
			err = r.tooLarge()
		}
		return err
	})
}

// fsckLevels returns the settings fetch.fsck.* in the form of git index-pack.
func fsckLevels() string {
	var levels []string
	for _, setting := range commonSettings {
		if finding, ok := strings.CutPrefix(setting[0], "fetch.fsck."); ok {
			levels = append(levels, finding+"="+setting[1])
		}
	}
	return strings.Join(levels, ",")
}

// hasCommit reports whether the pack has the commit id as a whole object, not as a delta. If it returns false, git may
// still find the commit.
func (r *repository) hasCommit(id string) bool {
	name, err := hex.DecodeString(id)
	indexes, _ := filepath.Glob(filepath.Join(r.dir, "objects", "pack", "*.idx"))
	if err != nil || len(indexes) != 1 {
		return false
	}
	index, err := os.Open(indexes[0])
	if err != nil {
		return false
	}
	defer index.Close()
	pack, err := os.Open(strings.TrimSuffix(indexes[0], "idx") + "pack")
	if err != nil {
		return false
	}
	defer pack.Close()
	at := func(f io.ReaderAt, offset int64, n int) []byte {
		b := make([]byte, n)
		if _, err := f.ReadAt(b, offset); err != nil {
			clear(b)
		}
		return b
	}
	// https://git-scm.com/docs/gitformat-pack#_version_2_pack_idx_files_support_packs_larger_than_4_gib_and
	number := func(offset int64) int64 { return int64(binary.BigEndian.Uint32(at(index, offset, 4))) }
	const names = 8 + 256*4
	all, size := number(names-4), int64(len(name))
	n := int64(sort.Search(int(all), func(i int) bool {
		return bytes.Compare(at(index, names+int64(i)*size, len(name)), name) >= 0
	}))
	if n == all || !bytes.Equal(at(index, names+n*size, len(name)), name) {
		return false
	}
	kind := at(pack, number(names+all*(size+4)+n*4), 1)[0]
	return kind>>4&7 == 1 // OBJ_COMMIT
}
