// Package sim runs masters and slaves, whole stores, on a bad network in memory and on disks that fail, in the fake time of testing/synctest.
//
// TestSimulation is deterministic: a seed is the whole run. One goroutine decides what happens next (a put, the arrival of some bytes, the end of a process or of a machine, a change of roles, some time) and lets all others come to rest before it decides
// again, so that the scheduler's choices decide nothing; TestASeedIsARun holds it to that. What is checked: answers say what is so, an acknowledged put is never lost, what consumers saw is never taken back, in the end all machines are equal byte for byte,
// and the log and its answers are what conformance/model makes of the same puts. A seed that breaks a law prints the command that replays it; with MQSTORE_EFFORT=endless new seeds are tried until shortly before the test's -timeout.
//
// The other tests each make one thing happen, with many producers at a time and the real scheduler.
package sim
