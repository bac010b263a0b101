// Package registrytest provides a module registry and modules for tests.
//
//	u := registrytest.New(t, txtar.Parse(fixture))
//	u.Set(registrytest.Archive, registrytest.Knobs{Status: 503})
//	registrytest.TestRegistry(t, host, open)
//
// An [Upstream] is a registry with its git repositories and archives. It is made from a fixture and served on this
// machine by HTTPS, git's own server, and the OCI registry that tools/build-registry.sh builds. [Memory] is a [modproxy.Registry] from the same kind of fixture.
// [TestRegistry] is the test suite of every layer.
//
// A fixture is a txtar archive or a directory. Its file names are addresses:
//
//	modules/NAMESPACE/NAME/SYSTEM/VERSION        the location of that version
//	modules/NAMESPACE/NAME/SYSTEM/VERSION/FILE   or a file of its package
//	modules/NAMESPACE/NAME/SYSTEM/versions       the versions document, in place of the generated one
//	providers/NAMESPACE/TYPE/VERSION             a version of a provider, with knobs, one a line
//	providers/NAMESPACE/TYPE/VERSION/FILE        or a file of its zips,
//	providers/NAMESPACE/TYPE/VERSION/knobs       and its knobs
//	providers/NAMESPACE/TYPE/warnings            the warnings in the versions document, one a line
//	providers/NAMESPACE/TYPE/versions            the versions document, in place of the generated one
//	repos/PATH.git@REVISION/FILE                 the tree of one commit of /PATH.git
//	oci/REPOSITORY@TAG/FILE                      a file of the module with this tag at the OCI registry; the REPOSITORY has one slash
//	oci/htpasswd                                 the users of the OCI registry, which then wants Basic authentication
//	archives/PATH.EXTENSION/FILE                 a file in /archives/PATH.EXTENSION
//	files/PATH                                   /files/PATH itself
//	get/PATH                                     the location in the header of /get/PATH?terraform-get=1
//	meta/PATH                                    the location in the HTML of /meta/PATH?terraform-get=1
//	v2/modules/NAMESPACE/NAME/SYSTEM             /v2/modules/… itself: the dates of versions
//	v2/providers/NAMESPACE/TYPE                  /v2/providers/… itself: the same of a provider
//	v2/PATH?QUERY.json                           /v2/PATH for that query alone
//	v1/modules/NAMESPACE/NAME/SYSTEM/VERSION     /v1/modules/… itself: the document about that version
//	v1/providers/NAMESPACE/TYPE/VERSION          /v1/providers/… itself: the same of a provider
//	v1/PATH.json, registry/PATH.json             /v1/PATH and /registry/PATH, such as v1/modules.json for the list of all modules
//	v1/modules/search?QUERY.json                 the answer to that query alone; v1/modules/search.json answers all others
//	.well-known/terraform.json                   the discovery document, in place of the generated one
//
// A location is one line. A line before it may select the form of the answer: "204" (the default) or "200 header" for a
// header, "200 json" for a JSON document. A REVISION that is a version is a tag, any other a branch. The tags, in their
// order, and main are consecutive commits; other branches fork off the last of these. An archive is also served without
// its EXTENSION.
//
// A provider is signed, and has zips for linux_amd64, darwin_arm64 and this machine. In the following example, the
// first line suffices for clients to install acme/toy 1.0.0. The checksums of 1.1.0 are signed by another key, and
// requests for its zips fail:
//
//	-- providers/acme/toy/1.0.0 --
//	-- providers/acme/toy/1.1.0 --
//	key=another
//	zip.status=503
//
// A zip contains the script terraform-provider-toy_v1.0.0, which fails when it is run, or the FILEs of the version. In
// these, {platform} is the platform of the zip, such as linux_amd64. The knobs of a version:
//
//	zip=changed             the zip differs from the one in the checksums
//	zip=truncated           half a zip, with its true checksum
//	zip=text                a text, with its true checksum
//	zip=page                an HTML page, with its true checksum
//	zip=directories         the zip has an entry for a directory, too
//	sums=wrong              the lines have other checksums; the download document has the true one
//	sums=missing            one line, for another file than the zips
//	sums=blank              a blank line after the first
//	sums=many               900 lines of other files
//	sums=large              10 MiB of lines
//	sums=manifest           an additional line for a manifest, as most real ones have
//	signature=wrong         made by the key for other content
//	signature=armored       text, which clients refuse
//	signature=empty         an empty file
//	names=odd               the names of the zips end in OS.ARCH.zip
//	names=v                 the names have vVERSION
//	names=old               the names are those of version 0.9.0
//	names=swapped           every platform's document names the zip of darwin_arm64
//	key=NAME                the signing key, made from its name (publisher); a key whose name begins with
//	                        "expired" has expired; rsa is readable by old clients, and random
//	keys=NAME,…             the keys that the registry lists, by default the signing key; none for "keys=", a JSON null
//	                        for "null", half a key for "broken"
//	platforms=OS_ARCH,…     the platforms with zips
//	protocols=JSON          the protocols (["5.0"])
//	size=N                  every zip has N MiB of additional incompressible data, generated when it is sent
//	listed=false            not in the versions document, but downloadable
//	KIND.KNOB=VALUE         answers to requests for the version: a knob of [Knobs] except hold and stall, for the kind
//	                        provider-download, sums, signature or zip; comes before the knobs of the [Upstream]
//
// Lines may be combined. A line that begins with # is a comment. To change bytes or versions later, load another
// fixture. If two upstreams have the same fixture, the first can redirect clients to the second for its files, as
// registries do, with the knobs sums.redirect and zip.redirect. The files of a version are below
// /releases/NAMESPACE/TYPE/VERSION/: terraform-provider-TYPE_VERSION_OS_ARCH.zip, …_SHA256SUMS and
// …_SHA256SUMS.KEY.sig.
//
// Marks are those of ls -F: FILE* is executable, and FILE@ is a symbolic link to the target in the file. FILE= is a
// submodule at the REPOSITORY@REVISION in the file.
//
// In every file, {host} is the upstream's host and port, {url} its URL, {commit:REPOSITORY@REVISION} the id of a commit
// and {sha256:PATH.EXTENSION} the digest of an archive.
//
// Invariant: equal fixtures have equal bytes and commits, except where they contain {host} or {url}.
package registrytest
