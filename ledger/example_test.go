package ledger_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// The first sum of a version counts until an operator accepts another one.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	book, err := ledger.Open(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer book.Close()

	ctx := context.Background()
	v := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}.At("1.2.3")
	first := ledger.Record{Ref: v, Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", Time: time.Now()}
	other := ledger.Record{Ref: v, Sum: "h1:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=", Time: time.Now()}
	fmt.Println(book.Add(ctx, first))
	fmt.Println(book.Add(ctx, other))

	other.Reason = "the maintainers moved the tag and said so"
	fmt.Println(book.Accept(ctx, other))
	counts, err := book.Lookup(ctx, v)
	fmt.Println(counts.Sum, err)
	fmt.Println(book.Tree().N, "records")
	// Output:
	// <nil>
	// content changed: it is recorded as h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
	// <nil>
	// h1:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ= <nil>
	// 2 records
}

// A decision of an operator is a leaf of the log as well.
func ExampleFormatDecision() {
	decided := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, d := range []modproxy.Decision{
		{Action: modproxy.Approve, Versions: "~> 1.2", By: "token security (5f0c)", Time: decided, Until: decided.AddDate(1, 0, 0), Reason: "reviewed"},
		{Action: modproxy.Unblock, By: "operator alice", Time: decided},
		{Action: modproxy.Deprecate, Versions: "< 1.4.0", By: "operator alice", Time: decided, Reason: "use 1.4.0", Link: "https://example.com/advisory"},
	} {
		d.Address = modproxy.Address{Host: "registry.example.com:8443", Namespace: "acme", Name: "vpc", System: "aws"}
		text, err := ledger.FormatDecision(d)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", text)
	}
	// Output:
	// decision registry.example.com/_8443/acme/vpc/aws approve
	// time 2026-03-04T05:06:07Z
	// by token security (5f0c)
	// versions ~> 1.2
	// until 2027-03-04T05:06:07Z
	// reason reviewed
	//
	// decision registry.example.com/_8443/acme/vpc/aws unblock
	// time 2026-03-04T05:06:07Z
	// by operator alice
	//
	// decision registry.example.com/_8443/acme/vpc/aws deprecate
	// time 2026-03-04T05:06:07Z
	// by operator alice
	// versions < 1.4.0
	// reason use 1.4.0
	// link https://example.com/advisory
}

// The record of a version is a leaf of a transparency log, in the format of Go's checksum database.
func ExampleFormatRecord() {
	text, err := ledger.FormatRecord(ledger.Record{
		Ref:    modproxy.Address{Host: "registry.example.com:8443", Namespace: "acme", Name: "vpc", System: "aws"}.At("1.2.3"),
		Sum:    "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		Source: modproxy.Source{URL: "https://git.example.com/acme/vpc.git", Commit: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", Mirror: "https://git.corp.example/mirrors/acme/vpc.git"},
		Time:   time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// registry.example.com/_8443/acme/vpc/aws v1.2.3 h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
	// time 2026-03-04T05:06:07Z
	// source https://git.example.com/acme/vpc.git
	// commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904
	// mirror https://git.corp.example/mirrors/acme/vpc.git
}
