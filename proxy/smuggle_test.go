package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
)

// A proxy in front may read a request with two lengths as two requests. Clients send no bodies here, so the connection ends with the
// answer.
func TestTwoLengths(t *testing.T) {
	p, _ := serve(t, false)
	c := p.dial()
	defer c.Close()
	go io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
		"GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
	answers := bufio.NewReader(c)
	first, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, first.Body); err != nil || !first.Close {
		t.Errorf("the first answer does not say that the connection ends: %v", err)
	}
	if second, err := http.ReadResponse(answers, nil); err == nil {
		t.Errorf("a second answer: %s", second.Status)
	}
}
