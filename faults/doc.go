// Package faults is the rig in which the built program is killed, loses power and
// runs out of space, while clients ask for packages.
//
// A power cut is a file system on a loop device that is shut down under the
// program, as xfstests does it: what was not flushed is lost. What a client was
// given completely must be there after it, with the same bytes, without anybody
// being asked, and "modproxy verify --read-data" must find nothing. That the rig
// would notice is proved with programs that do not flush what they should.
//
// It takes root, Linux, mount and mkfs.ext4, and runs in mount and process
// namespaces of its own, so that nothing of it outlasts it.
package faults
