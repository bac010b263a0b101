package config

import (
	"testing"
	"time"
)

func TestByteSize(t *testing.T) {
	for in, want := range map[string]ByteSize{
		"0B": 0, "1B": 1, "1KiB": 1 << 10, "64MiB": 64 << 20, "50GiB": 50 << 30, "8TiB": 8 << 40, "007B": 7,
		"8388607TiB": 8388607 << 40, "9223372036854775807B": 1<<63 - 1,
	} {
		if got, err := ParseByteSize(in); err != nil || got != want {
			t.Errorf("ParseByteSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", "0", "1", "B", "MiB", "64 MiB", " 1B", "1B ", "1MB", "1M", "1Mi", "1mib", "1.5GiB", "-1B", "+1B", "1_0B", "0x1B", "1iB", "1BB",
		"8388608TiB", "9223372036854775808B", "99999999999999999999TiB",
	} {
		if got, err := ParseByteSize(in); err == nil {
			t.Errorf("ParseByteSize(%q) = %d, want an error", in, got)
		}
	}
	for size, want := range map[ByteSize]string{0: "0B", 1: "1B", 1023: "1023B", 1536: "1536B", 1536 << 10: "1536KiB", 1 << 40: "1TiB", 4096 << 40: "4096TiB"} {
		if got := size.String(); got != want {
			t.Errorf("ByteSize(%d) = %s, want %s", size, got, want)
		}
	}
}

func FuzzByteSize(f *testing.F) {
	for _, s := range []string{"0B", "64MiB", "50GiB", "8388608TiB", "1.5GiB", "KiB", "-1B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		size, err := ParseByteSize(s)
		if err != nil {
			return
		}
		again, err := ParseByteSize(size.String())
		if size < 0 || err != nil || again != size {
			t.Errorf("ParseByteSize(%q) = %d, which prints %s, which is %d, %v", s, size, size, again, err)
		}
	})
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 30 * time.Second: "30s", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", 720 * time.Hour: "720h", 90 * time.Minute: "1h30m",
		10 * time.Minute: "10m", 100 * time.Hour: "100h", time.Hour + time.Second: "1h0m1s", 1500 * time.Millisecond: "1.5s",
	} {
		got := FormatDuration(d)
		if again, err := time.ParseDuration(got); got != want || err != nil || again != d {
			t.Errorf("FormatDuration(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for s, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "30d": 30 * day, "1d12h": 36 * time.Hour, "0d": 0, "106750d": 106750 * day, "-1s": -time.Second,
	} {
		if got, err := ParseDuration(s); got != want || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "d", "-1d", "1.5d", "1d-1h", "30", "1d2d", "soon", "106752d", "9999999999d", "+1d", "1 d"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v; want an error", s, got)
		}
	}
}
