package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// networkTypes are the network file systems by their magic number (statfs(2)).
var networkTypes = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB 2", 0x5346414f: "AFS", 0x00c36400: "Ceph", 0x01021997: "9P",
	0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x7461636f: "OCFS2",
}

func fileSystemOf(dir string) fileSystem {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return fileSystem{}
	}
	block := int64(s.Bsize)
	return fileSystem{
		free: int64(s.Bavail) * block, total: int64(s.Blocks) * block, known: true, network: networkTypes[int64(uint32(s.Type))],
	}
}

// ownerText returns the end of a message with the owner of a directory and the user of this process. It is empty if they are the same.
func ownerText(dir string) string {
	owner, ok := ownerOf(dir)
	if !ok || owner == uint32(os.Geteuid()) {
		return ""
	}
	return fmt.Sprintf("; it belongs to %s, and this is %s", userName(owner), userName(uint32(os.Geteuid())))
}

// otherOwner returns a message about a file in the data directory that belongs to another user than the directory, for example because a
// program that ran as root has written it. It returns an empty string if no such file exists.
func otherOwner(dir string) string {
	owner, ok := ownerOf(dir)
	if !ok {
		return ""
	}
	for _, pattern := range []string{"index.db", "layout.json", "lock", "blobs", "tmp", "scratch", "quarantine", "ledger", "ledger/*", "auth", "auth/*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is valid, unless dir has its characters
		for _, name := range found {
			if other, ok := ownerOf(name); ok && other != owner {
				return fmt.Sprintf("%s belongs to %s, and the directory to %s", name, userName(other), userName(owner))
			}
		}
	}
	return ""
}

func ownerOf(name string) (uid uint32, ok bool) {
	info, err := os.Lstat(name)
	if err != nil {
		return 0, false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || info.Mode().Type() == fs.ModeSymlink {
		return 0, false
	}
	return stat.Uid, true
}

// userName returns the name of a user. If it is unknown, userName returns "user" and the id.
func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}
