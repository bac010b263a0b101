// Package registrytest stands in for the internet: an [Upstream] is a module
// registry with its git repositories and archives, made from a fixture and
// served on this machine by HTTPS and git's own server. [Memory] is a
// [modproxy.Registry] from the same kind of fixture, and [TestRegistry] the
// suite that every layer passes over it.
//
// A fixture is a txtar archive or a directory whose file names are addresses:
//
//	modules/NAMESPACE/NAME/SYSTEM/VERSION        where that version is
//	modules/NAMESPACE/NAME/SYSTEM/VERSION/FILE   or what it contains
//	modules/NAMESPACE/NAME/SYSTEM/versions       the versions document, if not the obvious one
//	providers/NAMESPACE/TYPE/VERSION/FILE        what the provider contains, for this platform, and is signed
//	repos/PATH.git@REVISION/FILE                 the tree of one commit of /PATH.git
//	archives/PATH.EXTENSION/FILE                 what /archives/PATH.EXTENSION contains
//	files/PATH                                   /files/PATH itself
//	get/PATH                                     the location that /get/PATH?terraform-get=1 has in its header
//	meta/PATH                                    the location that /meta/PATH?terraform-get=1 has in its HTML
//	v2/modules/NAMESPACE/NAME/SYSTEM             /v2/modules/… itself: the dates of versions
//	v1/modules/NAMESPACE/NAME/SYSTEM/VERSION     /v1/modules/… itself: the document about that version
//	.well-known/terraform.json                   the discovery document, if not the obvious one
//
// Where a version is, is one line with a location. A line before it may say how
// to answer: "204" (the default) or "200 header" for a header, "200 json" for a
// JSON document. A REVISION that is a version is a tag, any other a branch; the
// tags, in their order, and main are commits one after the other, other branches
// fork off the last. An archive is also found without its EXTENSION.
//
// As ls -F marks them, FILE* is executable and FILE@ a symbolic link to what the
// file says; FILE= is a submodule at the REPOSITORY@REVISION that the file says.
//
// In every file {host} is the upstream's host and port, {url} its URL,
// {commit:REPOSITORY@REVISION} the id of a commit and {sha256:PATH.EXTENSION}
// the digest of an archive.
//
// The same fixture makes the same bytes and commits every time, wherever no
// {host} or {url} is in them.
package registrytest
