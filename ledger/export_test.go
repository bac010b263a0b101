package ledger

import "os"

// OpenSync is Open with something else for (*os.File).Sync.
func OpenSync(dir string, sync func(*os.File) error) (*Log, error) {
	return open(dir, "", sync)
}
