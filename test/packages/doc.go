// Package packages installs the .deb and the .rpm in a Debian root, upgrades and removes them, and starts the service.
//
// Tests run in namespaces of their own, without a network, as root: "make packages". They build the packages with
// tools/release from the checkout, and the packages before an upgrade from the previous commit. The Debian root is made
// by mmdebstrap, once a week, below the user's cache directory. The long form, "make release-check", also builds a
// whole release, twice, and starts its image.
package packages
