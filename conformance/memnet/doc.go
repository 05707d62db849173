// Package memnet is a network in memory: addresses, listeners and connections, for tests of what talks over one. Its waiting is by conditions and timers, so that the time of a testing/synctest bubble drives it.
//
// By itself it delays, resets, parts, makes reads short and holds back, as it is told and as a seed says. Driven (Network.Drive) it does nothing by itself: whoever drives it lets each connection come about and each byte arrive, so that one
// goroutine decides in which order everything happens.
package memnet
