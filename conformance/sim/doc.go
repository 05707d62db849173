// Package sim runs masters and slaves, whole stores, on a bad network in memory and on disks that fail, in the fake time of testing/synctest.
//
// A seed decides what the network does; which goroutine of a store runs first is the scheduler's choice. Laws are checked against what producers were answered, and against the bytes on both sides.
package sim
