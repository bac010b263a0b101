// Package hostile runs the built program against hostile registries, forges and clients.
//
// They lie, redirect, stall, flood and send bombs. Run it with "make hostile", as root or with user namespaces.
//
// The test starts itself again in its own network, mount and process namespaces. They contain a small internet: a name server, good
// registries and forges at public addresses, strangers that answer as each case needs, and canaries at forbidden addresses: loopback,
// private networks, the metadata servers of clouds. modproxy runs with its real policy, real name lookups, real git and, in tests that
// name a client, real Terraform and OpenTofu. It has no exceptions for the test.
//
// After every case the following must hold: no canary and no unknown address was touched; every complete package is
// the one that was served first; no answer, log, metric, process argument or file in the data directory has a secret; modproxy is alive
// and ready; every request has one line in the log, and no line reports a panic or a race. When a program ends, its memory, file
// descriptors, goroutines and children must have been within bounds, and a restart must leave no temporary files.
//
// With "go test -race" the program under test has the race detector, and the world around it has not.
//
// Many tests mostly wait. In their short form they are distributed among independent worlds that run at the same time.
//
// The directory mutants has changes to the program that break a promise. A case, or a test of another package, must find each of them: see
// its run.sh.
package hostile
