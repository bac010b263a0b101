// Package faults kills the built program, cuts its power, exhausts its resources and damages its files, under load.
//
// Run it with "make faults", as root.
//
// A power cut is the shutdown of a file system on a loop device under the program, as in xfstests: data that was not flushed is lost.
// After it, every package that a client received completely must be stored with the same bytes, without a request to a registry, and
// "modproxy verify --read-data" must find nothing. Programs that omit a flush prove that the rig would notice.
//
// After every case, without the upstream: every package that a client received is served with the same bytes, every record of the ledger
// is unchanged, every reported change of content is in the ledger, and no temporary file remains.
//
// The rig corrupts every file of a data directory a thousand times, by seeds: every verb ends and names a remedy that works. FAULTS_SEED
// names the first seed of a continued run.
//
// It also damages packages, index and ledger, mixes backups, disturbs registries and cuts their answers, makes the wall clock jump, and
// ends modproxy during transfers. No complete answer may have other bytes than at first, every loss must be reported, and every remedy
// must work.
//
// It needs root, Linux, mount, mkfs.ext4, strace and control groups for memory and processes; the wall clock jumps on amd64 only. It
// runs in its own mount and process namespaces, so that nothing remains after it.
package faults
