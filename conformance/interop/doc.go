// Package interop runs this engine beside the original: RocketMQ's own store, broker and name server, taken from Maven and driven by a small program of ours (driver/).
//
// Both engines sit behind one protocol, a JSON object a line (Peer): the original in a Java process, ours in a process of the test binary, so that the same code asks, compares, restarts and kills either of them.
//
//	same_dir_test.go      one directory, written by one and opened by the other, back and forth, closed or killed
//	replication_test.go   a master of the one and a slave of the other, over a network that is cut
//	broker_test.go        a broker and a name server of RocketMQ with a served slave of ours
//	differential_test.go  the same random calls to both: equal answers and equal bytes
//	laws_test.go          the conformance suite on the original, and in broken_test.go the list of those that it breaks
//	speed_test.go         both side by side on one disk
//
//	MQSTORE_INTEROP=1 go test ./conformance/interop
//	MQSTORE_INTEROP=1 MQSTORE_EFFORT=full go test -timeout 15m -parallel 6 ./conformance/interop       more than 10,000 random calls
//	MQSTORE_INTEROP_SPEED=1 go test -run TestSpeedBeside -timeout 2h -v ./conformance/interop          the table; see speed_test.go
//
// The tests need Java 17, Maven and what Maven downloads, so they run where MQSTORE_INTEROP=1 asks for them (.ci/run does), and say aloud when they are left out and why.
// The store is 4.9.8's and 5.3.3's. Broker and name server of 4.9.8 could not be had from Maven: 4.9.7's stand in.
package interop
