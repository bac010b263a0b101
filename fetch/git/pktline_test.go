package git_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/fetch/git"
)

func FuzzPktLine(f *testing.F) {
	for _, raw := range []string{
		"", "0000", "000100020003", "0004", "0005x", "0008abc", "00", "FFF0", "fff1", "-001", "00 5x", "0009done\n0000",
		line(strings.Repeat("x", 300)) + "0000",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(git.HoldPackets)
}

func FuzzAnswer(f *testing.F) {
	id := strings.Repeat("1a", 20)
	for _, raw := range []string{
		"", "0000", line(id+" refs/tags/v1 peeled:"+id+"\n") + line(id+" HEAD symref-target:refs/heads/main\n") + "0000",
		line("unborn HEAD symref-target:refs/heads/main\n") + "0000", line("ERR no\n"), line("NAK\n") + "PACK",
		line("shallow-info\n") + line("shallow "+id+"\n") + "0001" + line("packfile\n") + line("\x02x") + line("\x01PACK") +
			line("\x01") + line("\x01x") + "0000",
		line("packfile\n") + line("\x01PACK") + line("\x03no"), line("packfile\n") + "0000",
		line("packfile\n") + line("\x01P") + "00000000",
		line("packfile-uris\n") + line(id+" https://h/p\n") + "0001" + line("packfile\n") + line("\x01P") + "0000",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(git.HoldAnswer)
}

func FuzzTree(f *testing.F) {
	id := strings.Repeat("\x00", 20)
	for _, raw := range []string{
		"", "100644 a\x00" + id, "100755 a\x00" + id + "40000 b\x00" + id + "160000 c\x00" + id, "0100664 a\x00" + id,
		"120000 a\x00" + id[:19],
		"100644 ..\x00" + id, "100644 a/b\x00" + id, "100644 \x00" + id, "100644\x00" + id, "60000 a\x00" + id,
		"-1 a\x00" + id, "37777777777777 a\x00" + id,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(git.HoldTree)
}
