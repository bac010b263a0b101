package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os/exec"
	"strconv"
)

// An rpc is a program that answers JSON-RPC on its standard input and output.
type rpc struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	framed bool // messages have a header with their length, as in LSP; else they are lines, as in MCP
	id     int
}

// talkTo starts a program.
func talkTo(cmd *exec.Cmd, framed bool) (*rpc, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &rpc{cmd: cmd, in: in, out: bufio.NewReader(out), framed: framed}, cmd.Start()
}

// end ends the program.
func (r *rpc) end() {
	r.in.Close()
	r.cmd.Process.Kill()
	r.cmd.Wait()
}

func (r *rpc) send(message map[string]any) error {
	message["jsonrpc"] = "2.0"
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if r.framed {
		_, err = fmt.Fprintf(r.in, "Content-Length: %d\r\n\r\n%s", len(text), text)
	} else {
		_, err = fmt.Fprintf(r.in, "%s\n", text)
	}
	return err
}

// message is a message from a program: an answer, a request or a notification.
type message struct {
	ID     any
	Method string
	Result json.RawMessage
	Error  *struct{ Message string }
}

func (r *rpc) receive() (m message, err error) {
	var text []byte
	if r.framed {
		header, err := textproto.NewReader(r.out).ReadMIMEHeader()
		if err != nil {
			return m, err
		}
		length, err := strconv.Atoi(header.Get("Content-Length"))
		if err != nil {
			return m, err
		}
		text = make([]byte, length)
		if _, err := io.ReadFull(r.out, text); err != nil {
			return m, err
		}
	} else if text, err = r.out.ReadBytes('\n'); err != nil {
		return m, err
	}
	return m, json.Unmarshal(text, &m)
}

// notify sends a notification to the program.
func (r *rpc) notify(method string, params any) error {
	return r.send(map[string]any{"method": method, "params": params})
}

// call sends a request to the program, and waits for the answer. Requests from the program are answered with null
// meanwhile.
func (r *rpc) call(method string, params, result any) error {
	r.id++
	if err := r.send(map[string]any{"id": r.id, "method": method, "params": params}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		m, err := r.receive()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case m.Method != "" && m.ID != nil:
			if err := r.send(map[string]any{"id": m.ID, "result": nil}); err != nil {
				return err
			}
		case m.Method != "" || m.ID != float64(r.id):
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}
