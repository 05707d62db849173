//go:build !invariants && !race

// Package invariant says whether expensive self-checks are compiled in: under the build tags "invariants" and "race".
package invariant

// Enabled is a constant, so that checks behind it cost nothing in production builds.
const Enabled = false
