// Package faults is the rig in which the built program is killed, loses power, runs
// out of space and of what else a system gives, stands still, and is lied to about
// the time, while clients ask for packages.
//
// A power cut is a file system on a loop device that is shut down under the
// program, as xfstests does it: what was not flushed is lost. What a client was
// given completely must be there after it, with the same bytes, without anybody
// being asked, and "modproxy verify --read-data" must find nothing. That the rig
// would notice is proved with programs that do not flush what they should.
//
// Whatever happens, once it is over and with the upstream gone: every package that a
// client was given is served with the same bytes, every record of the ledger is what
// it was, what a client was told to have changed is in the ledger, and nothing
// temporary is left.
//
// It corrupts every file of a data directory a thousand times, by seeds: every verb
// ends and names a remedy that works. FAULTS_SEED names the seed to go on with.
//
// Beside that it damages packages, index and ledger, mixes backups, troubles
// registries and cuts what they send, and ends modproxy while it sends: no complete
// answer may have other bytes than were first seen, nothing may be lost without a
// word, and what modproxy says to do must help.
//
// It takes root, Linux, mount, mkfs.ext4, strace and control groups for memory and
// processes; the wall clock jumps on amd64 only. It runs in mount and process
// namespaces of its own, so that nothing of it outlasts it.
package faults
