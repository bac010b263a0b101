//go:build linux

package hostile_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The types of objects in a pack (https://git-scm.com/docs/gitformat-pack).
const (
	packCommit   = 1
	packTree     = 2
	packBlob     = 3
	packRefDelta = 7
)

var packTypes = map[int]string{packCommit: "commit", packTree: "tree", packBlob: "blob"}

// A gitPack is a pack in the making, with any content.
type gitPack struct {
	bytes.Buffer
	objects int
}

// add adds an object and returns its id.
func (g *gitPack) add(kind int, data []byte) string {
	g.objects++
	g.Write(packHeader(kind, uint64(len(data))))
	g.Write(deflate(data))
	return objectID(packTypes[kind], data)
}

// addDelta adds an object that is the result of delta on the object base.
func (g *gitPack) addDelta(base string, delta []byte) {
	g.objects++
	g.Write(packHeader(packRefDelta, uint64(len(delta))))
	id, _ := hex.DecodeString(base)
	g.Write(id)
	g.Write(deflate(delta))
}

// tree adds a tree with entries of mode, name and id, in the given order.
func (g *gitPack) tree(entries ...[3]string) string {
	var data bytes.Buffer
	for _, e := range entries {
		id, _ := hex.DecodeString(e[2])
		fmt.Fprintf(&data, "%s %s\x00%s", e[0], e[1], id)
	}
	return g.add(packTree, data.Bytes())
}

// commit adds a commit of a tree.
func (g *gitPack) commit(tree string) string {
	const who = "x <x@example.com> 1700000000 +0000"
	return g.add(packCommit, fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\nx\n", tree, who, who))
}

// finish returns the whole pack.
func (g *gitPack) finish() []byte {
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(g.objects))
	all := append(head, g.Bytes()...)
	sum := sha1.Sum(all)
	return append(all, sum[:]...)
}

func objectID(kind string, data []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", kind, len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func packHeader(kind int, size uint64) []byte {
	first := byte(kind<<4) | byte(size&15)
	size >>= 4
	var head []byte
	for size > 0 {
		head = append(head, first|0x80)
		first = byte(size & 0x7f)
		size >>= 7
	}
	return append(head, first)
}

func deflate(data []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

// copies is a delta that repeats the first 64 KiB of its base up to size.
func copies(base, size uint64) []byte {
	delta := binary.AppendUvarint(nil, base)
	delta = binary.AppendUvarint(delta, size)
	for ; size > 0; size -= min(size, 0x10000) {
		delta = append(delta, 0x80) // copy from offset 0 with size 0, which means 64 KiB
	}
	return delta
}

// A gitServer serves one commit over git's HTTP protocol, version 0, and version 2 for clients that request it.
type gitServer struct {
	commit string
	// pack writes the pack, or anything else.
	pack func(w io.Writer)
	// refs, if not nil, answers /info/refs instead.
	refs http.HandlerFunc
	// upload, if not nil, answers /git-upload-pack instead.
	upload http.HandlerFunc
}

// served returns a server of one pack with the last commit commit.
func served(g *gitPack, commit string) *gitServer {
	data := g.finish()
	return &gitServer{commit: commit, pack: func(w io.Writer) { w.Write(data) }}
}

func line(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }

func (g *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/info/refs") && g.refs != nil:
		g.refs(w, r)
	case strings.HasSuffix(r.URL.Path, "/info/refs"):
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		io.WriteString(w, line("# service=git-upload-pack\n")+"0000")
		io.WriteString(w, line(g.commit+" HEAD\x00shallow no-progress allow-tip-sha1-in-want symref=HEAD:refs/heads/main agent=x\n"))
		io.WriteString(w, line(g.commit+" refs/heads/main\n")+line(g.commit+" refs/tags/v1\n")+"0000")
	case strings.HasSuffix(r.URL.Path, "/git-upload-pack") && g.upload != nil:
		g.upload(w, r)
	case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("command=")) {
			g.second(w, body)
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		if bytes.Contains(body, []byte("deepen")) {
			io.WriteString(w, line("shallow "+g.commit+"\n")+"0000")
		}
		if bytes.Contains(body, []byte("done")) {
			io.WriteString(w, line("NAK\n"))
			g.pack(w)
		}
	default:
		http.NotFound(w, r)
	}
}

// second answers a request in version 2.
func (g *gitServer) second(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	if bytes.Contains(body, []byte("command=ls-refs")) {
		io.WriteString(w, line(g.commit+" refs/tags/v1\n")+"0000")
		return
	}
	io.WriteString(w, line("shallow-info\n")+line("shallow "+g.commit+"\n")+"0001"+line("packfile\n"))
	g.pack(banded{w})
	io.WriteString(w, "0000")
}

// banded writes into the first sideband, in pieces that fit into a line.
type banded struct{ w http.ResponseWriter }

func (b banded) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		some := p[:min(len(p), 60000)]
		_, err = io.WriteString(b.w, line("\x01"+string(some)))
		n, p = n+len(some), p[len(some):]
	}
	return n, err
}

// Flush sends what was written.
func (b banded) Flush() { b.w.(http.Flusher).Flush() }
