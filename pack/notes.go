package pack

import (
	"fmt"
	"strings"
)

const (
	maxNotes     = 20      // of one package
	maxNoteBytes = 4 << 10 // that they have together
)

// notes collects what there is to say of a package, in the order it is found.
type notes struct {
	list  []string
	bytes int
	more  int // that were not kept
}

func (n *notes) add(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if n.more > 0 || len(n.list) == maxNotes-1 || n.bytes+len(note) > maxNoteBytes {
		n.more++
		return
	}
	n.list, n.bytes = append(n.list, note), n.bytes+len(note)
}

// all is what was added, a note in each line.
func (n *notes) all() string {
	list := n.list
	if n.more > 0 {
		list = append(list, fmt.Sprintf("and %d more", n.more))
	}
	return strings.Join(list, "\n")
}
