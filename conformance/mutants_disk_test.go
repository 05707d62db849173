package conformance_test

func init() {
	mutants = append(mutants,
		mutant{"disk-001", "a put that is not on disk in time is answered PUT_OK", func(f *faulty) { f.disk.lateIsOK = true }},
		mutant{"disk-002", "a future that is not on disk in time answers PUT_OK", func(f *faulty) { f.disk.lateFutureIsOK = true }},
		mutant{"disk-003", "consumers see what is not on disk", func(f *faulty) { f.disk.showsAll = true }},
		mutant{"disk-004", "a context that ends the wait loses the offsets", func(f *faulty) { f.disk.forgetsOffsets = true }},
		mutant{"disk-005", "WAIT=false waits for the disk", func(f *faulty) { f.disk.alwaysWaits = true }},
		mutant{"disk-006", "a batch that is not on disk in time is answered PUT_OK", func(f *faulty) { f.disk.lateBatchIsOK = true }},
		mutant{"disk-007", "on a full disk nothing can be read", func(f *faulty) { f.disk.fullReadsFail = true }},
		mutant{"disk-008", "a disk that was full is full for ever", func(f *faulty) { f.disk.staysFull = true }},
		mutant{"disk-009", "after a failed flush puts go on", func(f *faulty) { f.disk.failureIsForgotten = true }},
		mutant{"disk-010", "after a failed flush nothing can be read", func(f *faulty) { f.disk.failureEndsReads = true }},
	)
}
