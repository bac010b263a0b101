package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ByteSize is a number of bytes. It is written as a whole number and a unit: B,
// KiB, MiB, GiB or TiB.
type ByteSize int64

const MiB ByteSize = 1 << 20

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

var errByteSize = errors.New("want a size with its unit, such as 64MiB or 50GiB")

// ParseByteSize reads what [ByteSize.String] prints.
func ParseByteSize(s string) (ByteSize, error) {
	digits := strings.TrimRight(s, "BKMGTi")
	unit := s[len(digits):]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return 0, errByteSize
	}
	for i, u := range byteUnits {
		if u != unit {
			continue
		}
		size := ByteSize(n) << (10 * i)
		if size>>(10*i) != ByteSize(n) || size < 0 {
			return 0, fmt.Errorf("%s is too large", s)
		}
		return size, nil
	}
	return 0, errByteSize
}

// String is the size in the largest unit that needs no fraction.
func (b ByteSize) String() string {
	i := 0
	for ; i < len(byteUnits)-1 && b != 0 && b%1024 == 0; i++ {
		b /= 1024
	}
	return strconv.FormatInt(int64(b), 10) + byteUnits[i]
}

var ErrDuration = errors.New("want a duration with its unit, such as 30s, 5m, 12h or 30d")

// ParseDuration is [time.ParseDuration], for which a day has 24 hours: 30d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	digits, rest, ok := strings.Cut(s, "d")
	if !ok {
		d, err := time.ParseDuration(s)
		if err != nil {
			err = ErrDuration
		}
		return d, err
	}
	const day = 24 * time.Hour
	days, err := strconv.ParseUint(digits, 10, 32)
	var more time.Duration
	if err == nil && rest != "" {
		more, err = time.ParseDuration(rest)
	}
	if err != nil || more < 0 || more >= day || days > uint64(1<<63-1)/uint64(day)-1 {
		return 0, ErrDuration
	}
	return time.Duration(days)*day + more, nil
}

// FormatDuration is d without the zero units that [time.Duration.String] ends in.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
