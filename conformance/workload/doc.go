// Package workload is random use of a message store that can be read, kept, replayed and made small.
//
//	w := workload.Generate(17, workload.Options{Ops: 300})              // a seed decides everything
//	c := workload.Comparison{Subject: openEngine, Reference: openModel} // two stores, opened for the workload's setup
//	d, err := c.Run(ctx, w)                                             // the first operation that they answer differently, or nil
//	small, d := c.Shrink(ctx, w)                                        // the fewest and simplest operations that show it
//	fmt.Print(small)                                                    // its text
//
// A store is driven by the interfaces of package store alone: Store is the least that it must have; every other operation needs an ability that is found by assertion (the interfaces of package store, and those of this
// package: Reopener, Crasher, Clock, Settler, Expirer, RawAppender). What a store cannot do is answered "unable", which is no difference; Abilities tells beforehand, and Options.Only keeps it out.
//
// # The text form
//
// One line an operation: its name, then field=value in any order, fields that are zero left out. "#" begins a comment, an empty line is nothing. The first line says how the store is set up.
//
//	store segment=4096 queuefile=200 maxmessage=5000 flush=sync
//	put topic=A queue=1 len=100 seed=7 tags=red keys="k1 k2" uniq=u3
//	put topic=A queue=1 len=40 seed=8 tx=prepared host=[2001:db8::1]:10911
//	async topic=B len=5 prop:COLOUR=blue
//	await
//	batch topic=A wait=false | len=10 seed=1 tags=red | len=20 seed=2
//	clock add=30
//	get topic=A queue=1 at=max-2 max=5 filter="red || green"
//	bytime topic=A queue=1 time=back2+1 rule=lower
//	lookup phy=back1
//	query topic=A key=k1 begin=now-100
//	expire segments=1
//	crash how=power seed=5
//	whole
//
// A value with a blank, a quote or "|" is a Go string in quotes. Bodies and filler are described: len bytes that follow from seed, pad bytes of "x" behind the properties. Places and times (at, phy, end, time, begin) are numbers, or stand
// relative to something, so that they still mean the same when operations before them are removed: min and max (of the queue, or of the log), now (the clock), backN (the N-th message stored, counted from the last one: its queue
// offset, physical offset or store time), each with +N or -N.
//
//	put, async     topic queue len seed codec flag born reconsume host bornhost tx prepared v2 pad, and properties: tags keys uniq wait delay lmq prop:NAME
//	await          the answers of all async puts since the last one
//	batch          as put without len, seed and codec; behind each "|" an item: len seed flag pad and properties
//	append         as put, as bytes of a master's log: AppendToCommitLog. cut=N sends only the first N bytes, rest=true what was cut, blank=true only the end-of-segment blank, skew=N sends to an offset that is wrong by N. What no master of this module would write is not sent
//	get            topic queue at max filter
//	bounds         topic queue: minimum, maximum, earliest store time
//	unit           topic queue at: place and store time of a queue offset
//	bytime         topic queue time rule (nearest, lower, upper)
//	lookup         phy
//	lookupid       phy host: the same by message id
//	query          topic key max begin end
//	scan           topic queue at: the rest of a queue
//	log            phy end: records of the log in [phy, end)
//	whole          bounds, queues and every record
//	flush
//	expire         segments: deletes so many of the oldest, as far as the store allows
//	reopen         close and open again
//	crash          how (kill, power) seed: the end of the process or of the machine, and open again
//	clock          add or set: milliseconds
//
// Workloads that once failed are in testdata; TestReplay runs them, and shows every answer of one that lies elsewhere:
//
//	go test ./conformance/workload -run '^TestReplay$' -v -workload /path/of/failed.workload
//
// # Answers
//
// One line an operation, too: a status, then field=value, then perhaps "# " and words that are not compared, such as an error's. Records are shown by place, size and checksum. Two executions can be compared line by line, also when they ran
// in different processes (Runner, ParseAnswer, Compare); where a reference must be told what the subject decided (the end of the log after a crash, a clock that cannot be set), it is a Follower and they run in step (Comparison).
package workload
