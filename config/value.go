package config

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/hostname"
)

// setText sets v, which is no group and no list, to what text says.
func setText(v reflect.Value, text string) (err error) {
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *egress.Secret:
		*p = egress.NewSecret(text)
	case *time.Duration:
		*p, err = ParseDuration(text)
	case *ByteSize:
		*p, err = ParseByteSize(text)
	case *auth.Scope:
		*p, err = ParseScope(text)
	case *netip.Prefix:
		*p, err = parseNetwork(text)
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			err = wanted(v)
		}
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			err = wanted(v)
		}
	default:
		err = wanted(v)
	}
	return err
}

// wanted returns an error that says what a value of v's type looks like.
func wanted(v reflect.Value) error {
	switch v.Interface().(type) {
	case bool:
		return errors.New("want true or false")
	case int:
		return errors.New("want a whole number")
	case time.Duration:
		return errDuration
	case ByteSize:
		return errByteSize
	}
	switch {
	case isGroup(v.Type()):
		return errors.New("want keys with values")
	case isList(v.Type()):
		return errors.New("want a list in YAML or JSON, such as [{key: value}]")
	case v.Kind() == reflect.Slice:
		return errors.New("want a list")
	}
	return errors.New("want text; put it in quotes if it looks like something else")
}

// ByteSize is a number of bytes. It is written as a whole number and a unit: B, KiB, MiB, GiB or TiB.
type ByteSize int64

// MiB is 1048576 bytes.
const MiB ByteSize = 1 << 20

var (
	byteUnits   = []string{"B", "KiB", "MiB", "GiB", "TiB"}
	errByteSize = errors.New("want a size with its unit, such as 64MiB or 50GiB")
	errDuration = errors.New("want a duration with its unit, such as 30s, 5m, 12h or 30d")
	zeroUnits   = regexp.MustCompile(`(h)0m0s$|(m)0s$`)
)

// ParseByteSize reads what [ByteSize.String] prints.
func ParseByteSize(s string) (ByteSize, error) {
	digits := strings.TrimRight(s, "BKMGTi")
	n, err := strconv.ParseUint(digits, 10, 63)
	i := slices.Index(byteUnits, s[len(digits):])
	if err != nil || i < 0 {
		return 0, errByteSize
	}
	size := ByteSize(n) << (10 * i)
	if size>>(10*i) != ByteSize(n) || size < 0 {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return size, nil
}

// MarshalText returns the size as String does.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String returns the size in the largest unit that needs no fraction.
func (b ByteSize) String() string {
	i := 0
	for ; i < len(byteUnits)-1 && b != 0 && b%1024 == 0; i++ {
		b /= 1024
	}
	return strconv.FormatInt(int64(b), 10) + byteUnits[i]
}

// ParseDuration is [time.ParseDuration] with days of 24 hours at the beginning: 30d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	if days, rest, ok := strings.Cut(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 32); err == nil {
			s = fmt.Sprintf("%dh%s", 24*n, rest)
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// FormatDuration returns d without the zero units that [time.Duration.String] ends in.
func FormatDuration(d time.Duration) string { return zeroUnits.ReplaceAllString(d.String(), "$1$2") }

// ParseScope is [auth.ParseScope] for a host as people write it.
func ParseScope(s string) (auth.Scope, error) {
	if host, namespace, ok := strings.Cut(s, "/"); ok && host != "*" {
		normalised, err := hostname.Parse(host)
		if err != nil {
			return auth.Scope{}, err
		}
		s = normalised + "/" + namespace
	}
	return auth.ParseScope(s)
}

// parseNetwork reads a network or a single address.
func parseNetwork(s string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(s); err == nil {
		return prefix.Masked(), nil
	}
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("want an address or a network, such as 10.0.0.0/8, not %.80q", s)
	}
	return netip.PrefixFrom(ip, ip.BitLen()), nil
}
