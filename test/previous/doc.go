// Package previous runs the previous version of the program beside today's, on each other's data.
//
//	go test ./test/previous
//
// The previous version is the newest tag before HEAD, or the commit before HEAD if the repository has no tag. It is built from git's
// archive of that commit. If HEAD is the first commit, today's version is also the previous one.
//
// The scripts in testdata/script run twice: "first" is the previous version and "second" is today's, and the other way round. They check
// the rules of docs/reference/compatibility.md for data, bundles, URLs and the operator's API. TestConfiguration checks the
// configuration, and TestNames that no verb, flag, key, path, metric or event is missing without a line in CHANGELOG.md.
package previous
