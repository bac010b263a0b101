package egress

import "time"

// SetTimes shortens the timeouts of an unused c: for the header of a response, for enough of its body, and for a tunnelled
// connection without traffic.
func (c *Client) SetTimes(header, window, idle time.Duration) {
	c.secure.HTTP2.WriteByteTimeout = header
	c.secure.ResponseHeaderTimeout, c.single.ResponseHeaderTimeout, c.window, c.idle = header, header, window, idle
}
