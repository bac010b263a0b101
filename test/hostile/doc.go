// Package hostile is the rig in which the built program meets a hostile world:
// registries, forges and clients that lie, redirect, stall, flood and bomb.
//
// The test runs itself again in network, mount and process namespaces of its own,
// which takes root or user namespaces. In there is a small internet: a name
// server, good registries and forges at public addresses, strangers that answer
// whatever a case wants, and canaries at the addresses that nobody may be led to:
// loopback, private networks, the metadata servers of clouds. modproxy runs with
// its real policy, real name lookups, real git and, where a client is named, real
// Terraform and OpenTofu; nothing is excepted for it.
//
// After every case must hold, whatever the case was about: no canary was touched,
// and no address beside the known ones; every complete package is the one that was
// acknowledged first; no secret is in an answer, a log, a metric, an argument of a
// process, or the data directory; modproxy is alive and ready; every request has
// one line in the log, and none of them tells of a panic or a race. When a program
// ends, its memory, file descriptors, goroutines and children must have been within
// bounds, and a restart must leave nothing temporary behind.
//
// With "go test -race" the program under test has the race detector, and the world around it has not.
//
// Many tests mostly wait. In their short form they are shared out among worlds that
// run beside each other and know nothing of one another.
//
// The directory mutants has changes to the program that break a promise, each of
// which a case, or a test of another package, must find: see its run.sh.
package hostile
