package egress

import "time"

// SetTimes shortens how long an unused c waits: for the header of an answer, for
// enough of its body, and for a tunnelled connection on which nothing moves.
func (c *Client) SetTimes(header, window, idle time.Duration) {
	c.secure.HTTP2.WriteByteTimeout = header
	c.secure.ResponseHeaderTimeout, c.single.ResponseHeaderTimeout, c.window, c.idle = header, header, window, idle
}
