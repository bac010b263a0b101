package egress

import (
	"errors"
	"net"
	"regexp"
	"strings"
)

// localAddress matches the address of this machine in the text of a connection error: "read tcp 10.1.2.3:4567->192.0.2.1:443:
// connection reset by peer".
var localAddress = regexp.MustCompile(`\b((?:tcp|udp)[46]?) \S+->`)

// outward returns err with a text for clients, without the addresses of the resolver and of this machine. The error's method
// Inside returns the text of the network's error with these addresses, for the log.
func outward(err error) error {
	if err == nil {
		return nil
	}
	text, inside := err.Error(), err.Error()
	dns, isLookup := errors.AsType[*net.DNSError](err)
	conn, isConnection := errors.AsType[*net.OpError](err)
	switch {
	case isLookup:
		public := *dns
		public.Server, public.Err = "", LookupReason(dns)
		inside = dns.Error()
		text = strings.ReplaceAll(text, inside, public.Error())
	case isConnection:
		inside = conn.Error()
	}
	if text = localAddress.ReplaceAllString(text, "$1 "); text == err.Error() {
		return err
	}
	return &insider{hidden{text, err}, inside}
}

// insider is an error whose text omits addresses.
type insider struct {
	hidden
	inside string
}

// Inside returns the text of the network's error, for operators.
func (i *insider) Inside() string { return i.inside }

// LookupReason returns the reason why a look-up failed, without the addresses of the resolver and of this machine.
func LookupReason(err *net.DNSError) string {
	if i := strings.LastIndex(err.Err, ": "); i >= 0 && connection.MatchString(err.Err) {
		return err.Err[i+len(": "):]
	}
	return err.Err
}

// connection matches the beginning of a connection error's text: "read udp 10.1.2.3:4567->10.1.2.1:53: ".
var connection = regexp.MustCompile(`\b(?:tcp|udp)[46]? \S+: `)
