package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// Tree receives the files of a revision.
type Tree = tree

// FetchURL writes the files of the revision that url names into t.
func (g *Getter) FetchURL(ctx context.Context, url string, t Tree) (commit string, err error) {
	got, err := g.fetch(ctx, fetch.Source{Location: modproxy.Location{URL: url}}, t)
	return got.From.Commit, err
}

// CommitURL returns the commit that url names.
func (g *Getter) CommitURL(ctx context.Context, url string) (string, error) {
	return g.Commit(ctx, fetch.Source{Location: modproxy.Location{URL: url}})
}

// CheckURL checks a location.
func (g *Getter) CheckURL(ctx context.Context, url string) error {
	return g.Check(ctx, fetch.Source{Location: modproxy.Location{URL: url}})
}

// Grammar returns the error for url, with any policy.
func Grammar(url string) error {
	_, _, err := parseSource(url)
	return err
}

// HoldSource checks the arguments for git of every accepted location.
func HoldSource(t *testing.T, raw string) {
	a, ref, err := parseSource(raw)
	if err != nil {
		if !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("%q: error %v is not ErrInvalid", raw, err)
		}
		return
	}
	a.hold(t, raw)
	if strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "\n\x00:*^~ +"[:7]) || strings.Contains(ref, "..") {
		t.Fatalf("%q: ref %q", raw, ref)
	}
	again, _, err := parseSource(a.String())
	if err != nil || again != a {
		t.Fatalf("%q is %q, and that is %q, %v", raw, a, again, err)
	}
}

// HoldSubmodules checks the same for every accepted .gitmodules file.
func HoldSubmodules(t *testing.T, list, parent string) {
	at, err := parseAddress(parent)
	if err != nil {
		return
	}
	byPath, err := parseSubmodules(list)
	if err != nil {
		if !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("%q: error %v is not ErrInvalid", list, err)
		}
		return
	}
	for path, s := range byPath {
		if strings.HasPrefix(path, "-") || strings.Contains("/"+s.name+"/", "/../") {
			t.Fatalf("%q: path %q, name %q", list, path, s.name)
		}
		a, err := s.address(at)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatalf("%q: error %v is not ErrInvalid", list, err)
			}
			continue
		}
		a.hold(t, s.url)
		again, err := parseAddress(a.String())
		if err != nil || again != a {
			t.Fatalf("%q is %q, and that is %q, %v", s.url, a, again, err)
		}
	}
}

func (a address) hold(t *testing.T, raw string) {
	s := a.String()
	if strings.ContainsAny(s, "\n\r\x00\\?#") || strings.HasPrefix(s, "-") {
		t.Fatalf("%q is %q", raw, s)
	}
	if strings.HasPrefix(a.host, "-") || strings.HasPrefix(a.user, "-") ||
		strings.HasPrefix(strings.Trim(a.path, "/"), "-") {
		t.Fatalf("%q is %+v", raw, a)
	}
	if a.scp {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() != a.host || u.Scheme != a.scheme || u.EscapedPath() != a.path || u.RawQuery != "" {
		t.Fatalf("%q is %q, which reads as %+v, %v", raw, s, u, err)
	}
	if _, ok := u.User.Password(); ok || a.scheme != "ssh" && u.User != nil {
		t.Fatalf("%q is %q", raw, s)
	}
}

// RelativeURL resolves the relative URL of a submodule.
var RelativeURL = relativeURL

// Scrub returns the part of git's stderr that users see.
var Scrub = scrub

// HoldPackets checks that the packet lines that were read can be written again unchanged.
func HoldPackets(t *testing.T, raw []byte) {
	p, again := newPackets(bytes.NewReader(raw)), []byte(nil)
	for {
		kind, data, err := p.next()
		if _, unexpected := errors.AsType[*otherwise](err); err != nil && err != io.EOF &&
			err != io.ErrUnexpectedEOF && !unexpected {
			t.Fatalf("%q: error %v", raw, err)
		}
		switch {
		case err == io.EOF && len(again) != len(raw):
			t.Fatalf("%q ended after %d bytes", raw, len(again))
		case err != nil:
			if !bytes.Equal(bytes.ToLower(raw[:len(again)]), bytes.ToLower(again)) {
				t.Fatalf("%q was read as %q", raw, again)
			}
			return
		case kind == packetData:
			again = appendPacket(again, string(data))
		default:
			again = fmt.Appendf(again, "%04x", int(kind))
		}
	}
}

// HoldAnswer checks that an accepted answer follows its grammar.
func HoldAnswer(t *testing.T, raw []byte) {
	expected := func(err error) {
		_, unexpected := errors.AsType[*otherwise](err)
		_, failed := errors.AsType[*said](err)
		if err != nil && err != io.ErrUnexpectedEOF && !unexpected && !failed {
			t.Fatalf("%q: error %v", raw, err)
		}
	}
	found := seek("v1")
	_, err := readRefs(newPackets(bytes.NewReader(raw)), found)
	expected(err)
	if found.commit != "" && (!isObjectID(found.commit) || !bytes.Contains(raw, []byte(found.commit))) {
		t.Fatalf("%q has %q", raw, found.commit)
	}
	holdTags(t, raw)
	from := newPackets(bytes.NewReader(raw))
	shallow, err := readSections(from, "sha1")
	expected(err)
	if shallow != "" && (len(shallow) != 40 || !isObjectID(shallow)) {
		t.Fatalf("%q: shallow %q", raw, shallow)
	}
	if err != nil {
		return
	}
	var failed error
	pack, err := io.ReadAll(&packfile{from: from, body: io.NopCloser(nil), fail: func(err error) { failed = err }})
	expected(err)
	switch {
	case err != failed:
		t.Fatalf("%q: error %v, told of %v", raw, err, failed)
	case err == nil && (len(pack) == 0 || !bytes.HasSuffix(raw, []byte("0000"))):
		t.Fatalf("%q: a pack of %d bytes", raw, len(pack))
	}
}

// holdTags checks that the tags of an accepted list of refs are in it, once and in order.
func holdTags(t *testing.T, raw []byte) {
	list := newTagList([]string{"v", "team/"})
	if _, err := readRefs(newPackets(bytes.NewReader(raw)), list); err != nil {
		return // FuzzAnswer checks the other errors of readRefs
	}
	before := ""
	for _, tag := range list.tags() {
		switch {
		case !strings.HasPrefix(tag.Name, "v") && !strings.HasPrefix(tag.Name, "team/"):
			t.Fatalf("%q has the tag %q, which does not match", raw, tag.Name)
		case tag.Name <= before || !isObjectID(tag.Commit) || strings.ToLower(tag.Commit) != tag.Commit:
			t.Fatalf("%q has %+v after %q", raw, tag, before)
		case !bytes.Contains(raw, []byte(tagsPrefix+tag.Name)) || !bytes.Contains(bytes.ToLower(raw), []byte(tag.Commit)):
			t.Fatalf("%q has %+v", raw, tag)
		}
		before = tag.Name
	}
}

// HoldTree checks that an accepted tree object is a possible tree.
func HoldTree(t *testing.T, raw []byte) {
	below, err := parseTree(raw, 20)
	size := 0
	for _, e := range below {
		if e.name == "" || strings.ContainsAny(e.name, "/\x00") || e.name == ".." || e.mode == "" || len(e.id) != 40 {
			t.Fatalf("%q has %+v", raw, e)
		}
		size += len("40000 ") + len(e.name) + 1 + 20
	}
	switch {
	case err != nil && (!errors.Is(err, modproxy.ErrInvalid) || below != nil):
		t.Fatalf("%q: error %v with %+v", raw, err, below)
	case err == nil && size > len(raw):
		t.Fatalf("%q has %+v", raw, below)
	}
}
