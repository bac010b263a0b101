package disk

import (
	"os"
	"syscall"

	"github.com/modproxy/modproxy/store"
)

// stampers are the file systems, as statfs(2) names them, that give a file another time of change whenever a program has
// written to it, also through a mapping. Of tmpfs a mapping can be written to for ever after the first time; what network
// file systems tell may be a minute old.
var stampers = map[uint32]bool{
	0xef53:     true, // ext2, ext3 and ext4
	0x58465342: true, // XFS
	0x9123683e: true, // Btrfs
	0xf2f52010: true, // F2FS
	0x794c7630: true, // overlayfs
}

// stampOf returns the stamp of a file, or zero where it would not change with the file.
func stampOf(f *os.File) store.Stamp {
	var fs syscall.Statfs_t
	var s syscall.Stat_t
	if syscall.Fstatfs(int(f.Fd()), &fs) != nil || !stampers[uint32(fs.Type)] || syscall.Fstat(int(f.Fd()), &s) != nil {
		return store.Stamp{}
	}
	return store.Stamp{
		Device: uint64(s.Dev), Inode: s.Ino, Size: s.Size, ModTime: s.Mtim.Nano(), ChangeTime: s.Ctim.Nano(),
	}
}
