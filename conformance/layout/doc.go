// Package layout holds the rules of the source tree as tests: the closed top level, which package may import which, where outside libraries may be used, and what must not be left lying in the tree.
//
// It has no code of its own. The tables in layout_test.go are the rules; an arrow that is not in them fails by name.
package layout
