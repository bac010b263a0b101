package store_test

import (
	"context"
	"crypto/sha256"
	"io"
	"log"
	"os"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// A record and the blob that it needs are stored in a directory. The bytes of the blob are verified while they are read.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	d, err := disk.Open(ctx, dir)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	s := store.New(store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d, MaxSize: 100 << 30})
	defer s.Close(ctx)
	s.Start()

	text := "the bytes of a package\n"
	digest, size := modproxy.Digest(sha256.Sum256([]byte(text))), int64(len(text))
	record := store.Record{
		Ref:   store.Ref{Kind: "example", Key: "registry.example.com/acme/vpc/aws/1.2.3"},
		Value: []byte("what the caller knows about the package"),
		Needs: []modproxy.Digest{digest},
	}
	if _, err := s.Keep(ctx, record, store.Content{Digest: digest, Size: size, Reader: strings.NewReader(text)}); err != nil {
		log.Fatal(err)
	}
	body, err := s.Open(ctx, digest, size)
	if err != nil {
		log.Fatal(err)
	}
	defer body.Close()
	if _, err := io.Copy(os.Stdout, body); err != nil {
		log.Fatal(err)
	}
	// Output: the bytes of a package
}
