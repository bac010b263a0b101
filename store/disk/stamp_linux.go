package disk

import (
	"os"
	"syscall"

	"github.com/modproxy/modproxy/store"
)

// stampers are the file systems, by their type in statfs(2), that change the change time of a file after every write of
// a program, also through a mapping. On tmpfs, later writes through a mapping change no time. The times of network file
// systems may be a minute old.
var stampers = map[uint32]bool{
	0xef53:     true, // ext2, ext3 and ext4
	0x58465342: true, // XFS
	0x9123683e: true, // Btrfs
	0xf2f52010: true, // F2FS
	0x794c7630: true, // overlayfs
}

// stampOf returns the stamp of a file. It is zero on a file system whose stamps are not reliable.
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
