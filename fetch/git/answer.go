package git

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// otherwise is the error of a server that does not answer as protocol v2 requires. git itself must ask the server.
type otherwise struct {
	says    string
	origin  bool // applies to all repositories of the origin: the server does not accept such requests
	passes  bool // the next answer may differ
	refused bool // git refused the pack in the answer
	silent  bool // the answer had no content, only a status
	status  int  // of an answer to another question; may be 0
}

func (o *otherwise) Error() string { return "answered otherwise: " + o.says }

// isSilent reports whether err means that the answer had no content.
func isSilent(err error) bool {
	o, ok := errors.AsType[*otherwise](err)
	return ok && o.silent
}

// isPage reports whether err means that the answer was successful, but not in git's protocol.
func isPage(err error) bool {
	o, ok := errors.AsType[*otherwise](err)
	return ok && o.status == http.StatusOK
}

func unexpected(format string, args ...any) error {
	return &otherwise{says: fmt.Sprintf(format, args...)}
}

// refReader receives a list of refs.
type refReader interface {
	// prefixes returns the beginnings of the names of wanted refs. The list may have other refs.
	prefixes() []string
	// see receives each ref. The name of a peeled tag ends in ^{}.
	see(id, name string) error
}

// listQuestion requests the refs that l wants (https://git-scm.com/docs/gitprotocol-v2).
func listQuestion(l refReader, format string) []byte {
	b := begin("ls-refs", format)
	b = appendPacket(b, "peel\n")
	b = appendPacket(b, "symrefs\n")
	for _, prefix := range l.prefixes() {
		b = appendPacket(b, "ref-prefix "+prefix+"\n")
	}
	return append(b, "0000"...)
}

// fetchQuestion requests one commit without its history.
func fetchQuestion(id string) []byte {
	b := begin("fetch", formatOf(id))
	for _, line := range []string{"ofs-delta", "no-progress", "deepen 1", "want " + id, "done"} {
		b = appendPacket(b, line+"\n")
	}
	return append(b, "0000"...)
}

func begin(command, format string) []byte {
	b := appendPacket(nil, "command="+command+"\n")
	b = appendPacket(b, "agent=modproxy\n")
	if format != "sha1" { // some servers do not know the name sha1
		b = appendPacket(b, "object-format="+format+"\n")
	}
	return append(b, "0001"...)
}

// formatOf returns the format of an object id.
func formatOf(id string) string {
	if len(id) == 64 {
		return "sha256"
	}
	return "sha1"
}

// readRefs reads the list of refs in p, and passes each one to l. format is that of their ids, or empty if the list has
// no refs.
func readRefs(p packets, l refReader) (format string, err error) {
	for first := true; ; first = false {
		kind, data, err := p.next()
		switch {
		case err != nil:
			return format, notBegun(err, first)
		case kind == packetFlush:
			return format, p.end()
		case kind != packetData:
			return format, unexpected("a list of refs in sections")
		}
		line, err := text(data)
		if err != nil {
			return format, err
		}
		id, rest, ok := strings.Cut(line, " ")
		name, attributes, _ := strings.Cut(rest, " ")
		if !ok || !isObjectID(id) || format != "" && formatOf(id) != format {
			return format, unexpected("a list of refs that cannot be read")
		}
		format = formatOf(id)
		if err := l.see(id, name); err != nil {
			return format, err
		}
		for attribute := range strings.SplitSeq(attributes, " ") {
			if peeled, ok := strings.CutPrefix(attribute, "peeled:"); ok {
				if formatOf(peeled) != format || !isObjectID(peeled) {
					return format, unexpected("a list of refs that cannot be read")
				}
				if err := l.see(peeled, name+"^{}"); err != nil {
					return format, err
				}
			}
		}
	}
}

// readSections reads up to the pack in p. If the answer omits the parents of the commit, shallow is that commit. The
// request asked for no other sections; packfile-uris, which would lead the client elsewhere, is refused.
func readSections(p packets, format string) (shallow string, err error) {
	const inside = "shallow-info"
	for section := ""; ; {
		kind, data, err := p.next()
		if err != nil {
			return "", notBegun(err, section == "")
		}
		line, err := text(data)
		switch commit, isShallow := strings.CutPrefix(line, "shallow "); {
		case err != nil:
			return "", err
		case kind == packetDelim && section == inside:
			section = "none"
		case kind != packetData:
			return "", unexpected("no pack")
		case section == inside && isShallow && shallow == "" && isObjectID(commit) && formatOf(commit) == format:
			shallow = commit
		case section == inside:
			return "", unexpected("something else than one shallow commit")
		case section == "" && line == inside:
			section = inside
		case line == "packfile":
			return shallow, nil
		case section == "" && (line == "NAK" || strings.HasPrefix(line, "ACK ")):
			return "", &otherwise{says: "an early version of the protocol"}
		default:
			return "", unexpected("the section %.40q", line)
		}
	}
}

// notBegun returns err, or a silent otherwise if the answer is empty. Servers that do not know the protocol send empty
// answers.
func notBegun(err error, first bool) error {
	if first && err == io.EOF {
		return &otherwise{says: "nothing", silent: true}
	}
	return whole(err)
}

// text returns a line without its end. If the line is an error of the server about the request, the error is an
// otherwise.
func text(data []byte) (string, error) {
	line := strings.TrimSuffix(string(data), "\n")
	if said, ok := strings.CutPrefix(line, "ERR "); ok {
		return "", &otherwise{says: fmt.Sprintf("%.200s", said), passes: true}
	}
	return line, nil
}
