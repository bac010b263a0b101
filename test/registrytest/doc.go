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
//	providers/NAMESPACE/TYPE/VERSION             a version of a provider, with lines that say what is odd about it
//	providers/NAMESPACE/TYPE/VERSION/FILE        or what its zips contain,
//	providers/NAMESPACE/TYPE/VERSION/knobs       and what is odd about that
//	providers/NAMESPACE/TYPE/warnings            the warnings in the versions document, one a line
//	providers/NAMESPACE/TYPE/versions            the versions document, if not the obvious one
//	repos/PATH.git@REVISION/FILE                 the tree of one commit of /PATH.git
//	archives/PATH.EXTENSION/FILE                 what /archives/PATH.EXTENSION contains
//	files/PATH                                   /files/PATH itself
//	get/PATH                                     the location that /get/PATH?terraform-get=1 has in its header
//	meta/PATH                                    the location that /meta/PATH?terraform-get=1 has in its HTML
//	v2/modules/NAMESPACE/NAME/SYSTEM             /v2/modules/… itself: the dates of versions
//	v2/providers/NAMESPACE/TYPE                  /v2/providers/… itself: the same of a provider
//	v2/PATH?QUERY.json                           /v2/PATH for that query alone
//	v1/modules/NAMESPACE/NAME/SYSTEM/VERSION     /v1/modules/… itself: the document about that version
//	v1/providers/NAMESPACE/TYPE/VERSION          /v1/providers/… itself: the same of a provider
//	v1/PATH.json, registry/PATH.json             /v1/PATH and /registry/PATH, such as v1/modules.json for the list of all modules
//	v1/modules/search?QUERY.json                 what that query alone is answered; v1/modules/search.json answers all others
//	.well-known/terraform.json                   the discovery document, if not the obvious one
//
// Where a version is, is one line with a location. A line before it may say how
// to answer: "204" (the default) or "200 header" for a header, "200 json" for a
// JSON document. A REVISION that is a version is a tag, any other a branch; the
// tags, in their order, and main are commits one after the other, other branches
// fork off the last. An archive is also found without its EXTENSION.
//
// A provider is signed, and has zips for linux_amd64, darwin_arm64 and this machine.
// The first line of these is enough for clients to install acme/toy 1.0.0; of 1.1.0
// another key signs the checksums, and requests for its zips fail:
//
//	-- providers/acme/toy/1.0.0 --
//	-- providers/acme/toy/1.1.0 --
//	key=another
//	zip.status=503
//
// Their zips contain the script terraform-provider-toy_v1.0.0, which fails when it is
// run, or the FILEs of the version, in which {platform} is what the zip is for, such
// as linux_amd64. What can be odd about a version:
//
//	zip=changed             the zip is not the one that the checksums are of
//	zip=truncated           half a zip, with its true checksum
//	zip=text                no zip, with its true checksum
//	zip=page                an HTML page, with its true checksum
//	zip=directories         the zip has an entry for a directory, too
//	sums=wrong              the lines have checksums of something else; the download document has the true one
//	sums=missing            one line, which is for none of the zips
//	sums=blank              a blank line after the first
//	sums=many               900 lines of other files
//	sums=large              10 MiB of lines
//	sums=manifest           a line of a manifest besides, as most real ones have
//	signature=wrong         by the key, and of something else
//	signature=armored       text, which clients refuse
//	signature=empty         a file without content
//	names=odd               the names of the zips end in OS.ARCH.zip
//	names=v                 the names have vVERSION
//	names=old               the names are those of version 0.9.0
//	names=swapped           every platform's document names the zip of darwin_arm64
//	key=NAME                the key that signs, made from its name (publisher); one whose name begins with
//	                        "expired" has expired; rsa is one that old clients read, and another every time
//	keys=NAME,…             the keys that the registry lists, if not just that one; none for "keys=", a JSON null
//	                        for "null", half a key for "broken"
//	platforms=OS_ARCH,…     what there are zips for
//	protocols=JSON          the protocols (["5.0"])
//	size=N                  every zip has N MiB more that cannot be compressed, and are made when it is sent
//	listed=false            not in the versions document, but to be had
//	KIND.KNOB=VALUE         answer requests for the version so: a knob of [Knobs] except hold and stall, for the kind
//	                        provider-download, sums, signature or zip; comes before the knobs of the [Upstream]
//
// Lines may be combined, and one that begins with # is a comment. What changes later,
// bytes or versions, is in another fixture that is loaded then. Of two upstreams with
// one fixture the first sends clients to the second for its files, as registries do,
// with the knobs sums.redirect and zip.redirect. The files of a version are below
// /releases/NAMESPACE/TYPE/VERSION/: terraform-provider-TYPE_VERSION_OS_ARCH.zip,
// …_SHA256SUMS and …_SHA256SUMS.KEY.sig.
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
