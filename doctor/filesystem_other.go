//go:build !linux

package doctor

func fileSystemOf(string) fileSystem { return fileSystem{} }

func ownerText(string) string { return "" }

func otherOwner(string) string { return "" }
