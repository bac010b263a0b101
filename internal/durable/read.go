package durable

import (
	"fmt"
	"io"
	"os"
)

// ReadRegular reads a file of at most limit bytes that [OpenRegular] opens.
func ReadRegular(name string, limit int64) ([]byte, error) {
	f, err := OpenRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return text, err
}
