// Package crash asks a store what it promised, after the worst moments: the process killed, the power lost, the disk failing or full, at any operation.
//
// Nothing but tests. They use the store as its users do, keep a list of what it answered, and hold it to the list:
//
//   - lives on a file system in memory, in which a seed decides everything: what is put, which step of flush, dispatch, checkpoint or retention comes next, how the
//     process or the machine ends, and which unsynced pages survive (TestLives, TestSlaveLives);
//   - histories: 8 producers and 8 consumers at once, with crashes between, checked for linearizability (TestConcurrentHistoriesAreThoseOfQueues);
//   - kill -9 of real processes on real files (TestKilledProcessLosesNothingAcked);
//   - a full disk (TestDiskFull…).
//
// How many: conformance/effort. A failing seed is printed with the command that runs it again.
package crash
