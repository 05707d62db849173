package metasync_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/mqstore/mqstore/ha/metasync"
	"github.com/mqstore/mqstore/ha/remoting"
)

// A master serves the config directory of its store on two ports, and a slave copies it.
func Example() {
	root, err := os.MkdirTemp("", "metasync")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	master := metasync.NewDir(root+"/master", metasync.DirOptions{})
	topics := metasync.TopicConfigTable{
		DataVersion: metasync.DataVersion{Counter: 1, Timestamp: 1700000000000},
		Topics:      map[string]metasync.TopicConfig{"TopicTest": metasync.NewTopicConfig("TopicTest")},
	}
	if _, err := master.SaveTopics(topics); err != nil {
		fmt.Println(err)
		return
	}
	main, vip, err := metasync.ListenPair("127.0.0.1:0") // a broker's listen port
	if err != nil {
		fmt.Println(err)
		return
	}
	server := metasync.NewServer(master, remoting.ServerOptions{})
	defer server.Close()
	for _, l := range []net.Listener{main, vip} {
		go server.Serve(l)
	}

	slave := metasync.NewDir(root+"/slave", metasync.DirOptions{})
	syncer := metasync.NewSyncer(slave, metasync.SyncerOptions{Timeout: time.Minute}) // of a request; a machine that stands still for seconds is forgiven
	defer syncer.Close()
	syncer.SetMaster(main.Addr().String())
	result, err := syncer.Step(context.Background()) // Run does this every 10 s
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("changed:", result.Changed)
	got, _, err := slave.LoadTopics()
	fmt.Println(len(got.Topics), "topic, version", got.DataVersion.Counter, err)
	// Output:
	// changed: [topics consumer offsets delay offsets subscription groups]
	// 1 topic, version 1 <nil>
}

// A slave registers with name servers; their answer says from which master to copy, and where its HA port is.
func ExampleRegistrar() {
	syncer := metasync.NewSyncer(metasync.NewDir("/data/store", metasync.DirOptions{}), metasync.SyncerOptions{Self: "10.0.0.2:10911"})
	defer syncer.Close()
	registrar, err := metasync.NewRegistrar(metasync.RegistrarOptions{
		NameServers: "10.0.1.1:9876;10.0.1.2:9876",
		BrokerName:  "broker-a", BrokerAddr: "10.0.0.2:10911", ClusterName: "DefaultCluster", BrokerID: 1, HAServerAddr: "10.0.0.2:10912",
		Registered: func(r metasync.Registration) {
			syncer.SetMaster(r.MasterAddr)
			if len(r.HAServerAddr) >= 6 { // and no haMasterAddress in the configuration
				fmt.Println("follow", r.HAServerAddr)
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a node runs both until it stops
	fmt.Println(registrar.Run(ctx), syncer.Run(ctx))
	// then: registrar.Close() unregisters.
	// Output: context canceled context canceled
}
