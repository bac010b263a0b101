package git

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
)

// maxPacket is the size of the longest packet line, including its length (LARGE_PACKET_MAX in git's pkt-line.h).
const maxPacket = 65520

// packet is the type of a packet line (https://git-scm.com/docs/gitprotocol-v2#_packet_line_framing).
type packet int

const (
	packetFlush packet = iota // 0000, the end of an answer
	packetDelim               // 0001, the end of a section
	packetEnd                 // 0002, only between git and its helpers
	packetData
)

// packets reads untrusted packet lines.
type packets struct{ r *bufio.Reader }

func newPackets(r io.Reader) packets { return packets{bufio.NewReaderSize(r, maxPacket)} }

// next returns the next packet line. Its data is valid until the next call. The error is io.EOF only between lines.
func (p packets) next() (packet, []byte, error) {
	length, err := p.r.Peek(4)
	if err == io.EOF && len(length) > 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, err
	}
	var raw [2]byte
	if _, err := hex.Decode(raw[:], length); err != nil {
		return 0, nil, unexpected("a packet line of length %q", length)
	}
	n := int(raw[0])<<8 | int(raw[1])
	switch {
	case n < int(packetData):
		_, err = p.r.Discard(4)
		return packet(n), nil, err
	case n < 4 || n > maxPacket:
		return 0, nil, unexpected("a packet line of length %q", length)
	}
	line, err := p.r.Peek(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, err
	}
	_, err = p.r.Discard(n)
	return packetData, line[4:], err
}

// end returns nil if the input has ended.
func (p packets) end() error {
	switch _, err := p.r.Peek(1); err {
	case io.EOF:
		return nil
	case nil:
		return unexpected("more than one answer")
	default:
		return err
	}
}

// appendPacket appends a packet line with a short text to b.
func appendPacket(b []byte, text string) []byte { return fmt.Appendf(b, "%04x%s", 4+len(text), text) }
