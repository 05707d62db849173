package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mqstore/mqstore/store"
)

const brokerConf = `# a broker as one finds it
brokerClusterName = DefaultCluster
brokerName=broker-a
brokerId=0
brokerIP1=192.168.7.9
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
listenPort=10911
deleteWhen=04;16
fileReservedTime=48
diskMaxUsedSpaceRatio=99
brokerRole=SYNC_MASTER
flushDiskType=SYNC_FLUSH
! another comment
storePathRootDir:/data/rocketmq/store
storePathCommitLog /data/rocketmq/store/commitlog
storePathConsumeQueue=/data/rocketmq/store/consumequeue
storePathIndex=/fast/index
storeCheckpoint=/data/rocketmq/store/checkpoint
abortFile=/data/rocketmq/abort
mapedFileSizeCommitLog=536870912
mapedFileSizeConsumeQueue=300000
maxMessageSize=65536
messageDelayLevel=1s 5s \
                  10s 1m
osPageCacheBusyTimeOutMills=2000
transientStorePoolEnable=true
messageIndexEnable=true
sendMessageThreadPoolNums=128
syncFlushTimeout=1000
syncFlushTimeout=7000
flushIntervalCommitLog=250
slaveTimeout=2500
haSendHeartbeatInterval=1000
haHousekeepingInterval=9000
haTransferBatchSize=65536
haSlaveFallbehindMax=1000000
haMasterAddress=10.0.0.5:10912
colour=blue
`

func TestABrokersPropertiesAreRead(t *testing.T) {
	o, b, unknown, err := store.ReadProperties(strings.NewReader(brokerConf))
	if err != nil {
		t.Fatal(err)
	}
	wantBroker := store.Broker{
		StorePathRootDir: "/data/rocketmq/store", Name: "broker-a", ClusterName: "DefaultCluster", IP1: "192.168.7.9", NamesrvAddr: "10.0.0.1:9876;10.0.0.2:9876",
		ListenPort: 10911, HAListenPort: 10912, HAMasterAddr: "10.0.0.5:10912", FileReserved: 48 * time.Hour, DeleteWhen: []int{4, 16}, MaxDiskRatio: 95, CleanForcibly: true,
	}
	if d := cmp.Diff(wantBroker, b); d != "" {
		t.Error(d)
	}
	got := fmt.Sprintln(o.Role, o.FlushMode, o.CommitLogDir, o.SegmentSize, o.QueueFileSize, o.MaxMessageSize, "|", o.DelayLevels, "|", o.PutBusyAfter, o.SyncFlushTimeout, o.FlushEvery, o.SizesFromFiles)
	want := "SYNC_MASTER SYNC_FLUSH /data/rocketmq/store/commitlog 536870912 300000 65536 | 1s 5s 10s 1m | 2s 7s 250ms true"
	if got != want+"\n" {
		t.Errorf("%s\nwant %s", got, want)
	}
	wantHA := store.HAOptions{MasterAddress: "10.0.0.5:10912", SlaveTimeout: 2500 * time.Millisecond, Heartbeat: time.Second, Housekeeping: 9 * time.Second, BatchSize: 65536, FallBehindMax: 1000000}
	if d := cmp.Diff(wantHA, o.HA, cmpopts.IgnoreFields(store.HAOptions{}, "Dial")); d != "" {
		t.Error(d)
	}
	reasons := map[string]string{}
	for _, k := range unknown {
		reasons[fmt.Sprintf("%d %s", k.Line, k.Key)] = k.Reason
	}
	for key, says := range map[string]string{
		"17 storePathIndex": "/data/rocketmq/store/index", "19 abortFile": "/data/rocketmq/store/abort", "26 transientStorePoolEnable": "no transient store pool",
		"28 sendMessageThreadPoolNums": "broker process", "29 syncFlushTimeout": "line 30", "38 colour": "unknown key",
	} {
		if !strings.Contains(reasons[key], says) {
			t.Errorf("%s: %q, want %q", key, reasons[key], says)
		}
		delete(reasons, key)
	}
	if len(reasons) != 0 {
		t.Errorf("also reported: %v", reasons)
	}
}

func TestPropertiesOfTheIndexAreRead(t *testing.T) {
	o, _, unknown, err := store.ReadProperties(strings.NewReader("messageIndexEnable=false\nmaxMsgsNumBatch=128\nmaxHashSlotNum=500\nmaxIndexNum=2000\nmessageIndexSafe=true\n"))
	if err != nil || len(unknown) != 1 || unknown[0].Key != "messageIndexSafe" {
		t.Fatal(unknown, err)
	}
	if got := fmt.Sprint(o.Index.Off, o.Index.MaxResults, o.Index.FileSlots, o.Index.FileEntries); got != "true 128 500 2000" {
		t.Error(got)
	}
	if o, _, _, err := store.ReadProperties(strings.NewReader("messageIndexEnable=true\n")); err != nil || o.Index.Off {
		t.Error(err)
	}
}

func TestBadPropertiesNameKeyValueAndWhatIsAllowed(t *testing.T) {
	for line, says := range map[string]string{
		"flushDiskType=sync":                       "ASYNC_FLUSH or SYNC_FLUSH",
		"brokerRole=MASTER":                        "ASYNC_MASTER, SYNC_MASTER or SLAVE",
		"maxMessageSize=4M":                        "a number from",
		"maxMessageSize=99999999999":               "a number from",
		"mapedFileSizeCommitLog=1":                 "a number from 1024",
		"offsetCheckInSlave=yes":                   "true or false",
		"messageDelayLevel=1s 2x":                  "unit s, m, h or d",
		"deleteWhen=4am":                           "hours from 00 to 23",
		"haHousekeepingInterval=soon":              "a number from",
		"haMasterAddress=master-host":              "host:port",
		"haTransferBatchSize=5000000":              "a number from 1 to 4194292",
		"warmMapedFileEnable=on":                   "true or false",
		"accessMessageInMemoryMaxRatio=0":          "a number from 1 to 100",
		"brokerId=x":                               "a number",
		"listenPort=70000":                         "65535",
		`storePathRootDir=\u12`:                    "four hexadecimal digits",
		"logicalDiskSpaceCleanForciblyThreshold=x": "a decimal number",
	} {
		_, _, _, err := store.ReadProperties(strings.NewReader("# first\n" + line + "\n"))
		key, value, _ := strings.Cut(line, "=")
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "line 2") || !strings.HasPrefix(value, `\`) && (!strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), value)) {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"enableDLegerCommitLog=true", "storeType=defaultRocksDB", "storePathCommitLog=/a,/b", "readOnlyCommitLogStorePaths=/a", "brokerId=-1"} {
		if _, _, _, err := store.ReadProperties(strings.NewReader(line)); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %v", line, err)
		}
	}
	_, _, _, err := store.ReadProperties(strings.NewReader("flushDiskType=a\nbrokerRole=b\n"))
	if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("both faults must be told: %v", err)
	}
	if _, _, _, err := store.ReadProperties(strings.NewReader(strings.Repeat("#", 2<<20))); err == nil {
		t.Error("2 MiB of properties")
	}
}

func TestJavaPropertiesSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"storePathRootDir=/a":                         "/a",
		"storePathRootDir = /a":                       "/a",
		"storePathRootDir:/a":                         "/a",
		"storePathRootDir /a":                         "/a",
		"\t storePathRootDir\t:  /a":                  "/a",
		"storePathRootDir=/a\\\n   /b":                "/a/b",
		"storePathRootDir=/a\\\r\n   /b\r\n":          "/a/b",
		"storePathRootDir=/a\\\\\nbrokerName=n":       `/a\`,
		"store\\u0050athRootDir=/\\u00e9":             "/é",
		"storePathRootDir=/a\\tb":                     "/a\tb",
		"storePathRootDir=/a\\=\\:b#c!":               "/a=:b#c!",
		"#storePathRootDir=/x\\\nstorePathRootDir=/a": "/a",
		"storePathRootDir=/x\nstorePathRootDir=/a":    "/a",
		"storePathRootDir=/\xe9":                      "/é", // ISO 8859-1, as java.util.Properties
		"storePathRootDir=/a\\":                       "/a",
		"storePathRootDir==/a":                        "=/a",
	} {
		_, b, _, err := store.ReadProperties(strings.NewReader(text))
		if err != nil || b.StorePathRootDir != want {
			t.Errorf("%q: %q, %v; want %q", text, b.StorePathRootDir, err, want)
		}
	}
}

func TestEveryDefaultValueOfTheOriginalIsAccepted(t *testing.T) {
	// The defaults of 5.10, spelt out, change nothing and are not worth a word.
	const text = `
mappedFileSizeCommitLog=1073741824
mappedFileSizeConsumeQueue=6000000
maxMessageSize=4194304
flushIntervalCommitLog=500
flushDiskType=ASYNC_FLUSH
brokerRole=ASYNC_MASTER
haListenPort=10912
haSendHeartbeatInterval=5000
useReentrantLockWhenPutMessage=true
enableDLegerCommitLog=false
transientStorePoolEnable=false
messageDelayLevel=1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h
isEnableBatchPush=false
dLegerGroup=
`
	o, _, unknown, err := store.ReadProperties(strings.NewReader(text))
	if err != nil || len(unknown) != 0 {
		t.Fatal(unknown, err)
	}
	if o.SegmentSize != 1<<30 || o.QueueFileSize != 6000000 || o.MaxMessageSize != 4<<20 {
		t.Fatalf("%+v", o)
	}
}

func FuzzReadProperties(f *testing.F) {
	f.Add([]byte(brokerConf))
	f.Add([]byte("a\\"))
	f.Add([]byte("\\u12\n=\n:\n \\\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, unknown, err := store.ReadProperties(strings.NewReader(string(b)))
		for _, k := range unknown {
			if k.Reason == "" || k.Line < 1 {
				t.Fatalf("%+v", k)
			}
		}
		if err != nil && err.Error() == "" {
			t.Fatal("an error without a word")
		}
	})
}
