package ha

import (
	"context"
	"fmt"
)

// A master serves its log, a slave copies it, and the master knows when it has.
func Example() {
	masterLog, slaveLog := newMemLog(1<<20), newMemLog(1<<20) // in a program: the store
	master, err := NewMaster(masterLog, MasterOptions{SegmentSize: 1 << 20})
	if err != nil {
		panic(err)
	}
	l, err := ListenClassic(":0") // loopback
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- master.Serve(l) }()

	slave, err := NewSlave(slaveLog, SlaveOptions{Master: l.Addr().String()})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- slave.Run(ctx) }()

	end := masterLog.append([]byte("hello slave"))
	if err := master.WaitAcked(ctx, end); err != nil {
		panic(err)
	}
	fmt.Println("the slave holds", slaveLog.MaxPhyOffset(), "bytes")

	stop()
	fmt.Println(<-stopped)
	master.Close()
	fmt.Println(<-served)
	// Output:
	// the slave holds 11 bytes
	// context canceled
	// <nil>
}
