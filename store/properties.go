package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mqstore/mqstore/commitlog/record"
)

// Broker is what a broker's .properties file says beside the store's options: where the store lies, who the node is, and how long messages are kept.
type Broker struct {
	StorePathRootDir string // default $HOME/store: the directory to Open

	Name          string
	ClusterName   string
	ID            int64 // 0 = master
	IP1, IP2      string
	NamesrvAddr   string // separated by ";"
	ListenPort    int    // default 10911
	HAListenPort  int    // default ListenPort + 1, as the broker's start-up sets it
	HAMasterAddr  string
	FileReserved  time.Duration // fileReservedTime, default 72 h
	DeleteWhen    []int         // hours of the day, default 4
	MaxDiskRatio  int           // diskMaxUsedSpaceRatio in percent, default 75, clamped to 10..95
	CleanForcibly bool          // cleanFileForciblyEnable, default true

	Extended  BrokerExtended // replication with TLS and a token between two of this engine
	NoClassic bool           // mqstore.ha.classic=false: no listener for RocketMQ's replication
}

// UnknownKey is a line of a .properties file that has no effect, and why.
type UnknownKey struct {
	Key, Value string
	Line       int
	Reason     string
}

func (k UnknownKey) String() string {
	return fmt.Sprintf("line %d: %s=%s: %s", k.Line, k.Key, k.Value, k.Reason)
}

// maxProperties bounds a .properties file.
const maxProperties = 1 << 20

// ReadProperties reads a RocketMQ broker's .properties file (4.9.8, and 5.3.3 where the store is the same). Keys without effect here are returned with the reason, and are not errors. An error names line, key, value and what is allowed;
// errors.Is(err, ErrUnsupported) for what this engine must not pretend to do: DLedger, RocksDB queues, several commit log directories.
//
// Options.HA.ListenAddress is left empty: who may connect is the caller's choice (Broker.HAListenPort is the port that the file, or 4.9.8, wants).
//
// The sizes of an existing store's files win over the configured ones (Options.SizesFromFiles), since 4.9.8 ignores the old spelling mapedFileSizeCommitLog and may have created files of another size.
func ReadProperties(r io.Reader) (Options, Broker, []UnknownKey, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxProperties+1))
	if err != nil {
		return Options{}, Broker{}, nil, fmt.Errorf("read properties: %w", err)
	}
	if len(b) > maxProperties {
		return Options{}, Broker{}, nil, fmt.Errorf("read properties: more than %d bytes: is this a .properties file?", maxProperties)
	}
	lines, err := parseProperties(b)
	if err != nil {
		return Options{}, Broker{}, nil, err
	}
	p := properties{
		o: Options{SizesFromFiles: true},
		b: Broker{ListenPort: 10911, FileReserved: 72 * time.Hour, DeleteWhen: []int{4}, MaxDiskRatio: 75, CleanForcibly: true},
	}
	if home, err := os.UserHomeDir(); err == nil {
		p.b.StorePathRootDir = filepath.Join(home, "store")
	}
	last := make(map[string]int, len(lines)) // as in Java, the last line of a key wins
	for i, l := range lines {
		last[l.key] = i
	}
	var errs []error
	for i, l := range lines {
		if last[l.key] != i {
			p.report(l, fmt.Sprintf("line %d sets it again, and wins", lines[last[l.key]].line))
			continue
		}
		if err := p.set(l, last); err != nil {
			errs = append(errs, err)
		}
	}
	p.finish(lines, last)
	return p.o, p.b, p.unknown, errors.Join(errs...)
}

type properties struct {
	o       Options
	b       Broker
	unknown []UnknownKey
	haPort  bool
}

func (p *properties) report(l propertyLine, reason string) {
	p.unknown = append(p.unknown, UnknownKey{Key: l.key, Value: l.value, Line: l.line, Reason: reason})
}

func (l propertyLine) bad(allowed string) error {
	return fmt.Errorf("line %d: %s=%s: must be %s", l.line, l.key, l.value, allowed)
}

func (l propertyLine) unsupported(why string) error {
	return fmt.Errorf("%w: line %d: %s=%s: %s", ErrUnsupported, l.line, l.key, l.value, why)
}

func (l propertyLine) int(low, high int64) (int64, error) {
	n, err := strconv.ParseInt(l.value, 10, 64)
	if err != nil || n < low || n > high {
		return 0, l.bad(fmt.Sprintf("a number from %d to %d", low, high))
	}
	return n, nil
}

func (l propertyLine) bool() (bool, error) {
	switch {
	case strings.EqualFold(l.value, "true"):
		return true, nil
	case strings.EqualFold(l.value, "false"):
		return false, nil
	}
	return false, l.bad("true or false")
}

const maxInt32 = 1<<31 - 1

// minMasterAddress is how long an haMasterAddress must be for 4.9.8 to look at it.
const minMasterAddress = 6

// misspelt are the names that 4.9.8 ignores and older versions, and many a configuration, have.
var misspelt = map[string]string{
	"mapedFileSizeCommitLog":            "mappedFileSizeCommitLog",
	"mapedFileSizeConsumeQueue":         "mappedFileSizeConsumeQueue",
	"mapedFileSizeConsumeQueueExt":      "mappedFileSizeConsumeQueueExt",
	"warmMappedFileEnable":              "warmMapedFileEnable",
	"enableDLedgerCommitLog":            "enableDLegerCommitLog",
	"destroyMappedFileIntervalForcibly": "destroyMapedFileIntervalForcibly",
}

// brokerOnly are settings of the broker process that its store never sees.
var brokerOnly = map[string]bool{
	"autoCreateTopicEnable": true, "autoCreateSubscriptionGroup": true, "defaultTopicQueueNums": true, "brokerPermission": true, "clusterTopicEnable": true, "brokerTopicEnable": true,
	"sendMessageThreadPoolNums": true, "pullMessageThreadPoolNums": true, "queryMessageThreadPoolNums": true, "adminBrokerThreadPoolNums": true, "clientManageThreadPoolNums": true, "consumerManageThreadPoolNums": true,
	"traceTopicEnable": true, "aclEnable": true, "enablePropertyFilter": true, "rejectTransactionMessage": true, "fetchNamesrvAddrByAddressServer": true, "registerBrokerTimeoutMills": true, "slaveReadEnable": true,
	"transactionTimeOut": true, "transactionCheckMax": true, "transactionCheckInterval": true, "longPollingEnable": true, "notifyConsumerIdsChangedEnable": true, "autoDeleteUnusedStats": true, "flushConsumerOffsetInterval": true,
	"waitTimeMillsInSendQueue": true, "useEpollNativeSelector": true, "sendThreadPoolQueueCapacity": true, "pullThreadPoolQueueCapacity": true, "rocketmqHome": true, "msgTraceTopicName": true, "compressedRegister": true,
	"serverWorkerThreads": true, "serverSelectorThreads": true, "serverSocketSndBufSize": true, "serverSocketRcvBufSize": true, "serverChannelMaxIdleTimeSeconds": true, "transferMsgByHeap": true, "filterServerNums": true,
}

func (p *properties) set(l propertyLine, last map[string]int) error {
	key := l.key
	if strings.HasPrefix(key, ownPrefix) {
		return p.setOwn(l)
	}
	if right, ok := misspelt[key]; ok {
		if _, ok := last[right]; ok {
			p.report(l, right+" is set, too, and wins")
			return nil
		}
		key = right
	}
	k, known := storeKeys[key]
	if known {
		if err := l.checkKind(k.kind); err != nil {
			return err
		}
	}
	ms := func(d *time.Duration) error {
		n, err := l.int(1, maxInt32)
		*d = time.Duration(n) * time.Millisecond
		return err
	}
	count := func(v *int, low int64) error {
		n, err := l.int(low, maxInt32)
		*v = int(n)
		return err
	}
	flag := func(v *bool) (err error) {
		*v, err = l.bool()
		return err
	}
	refuseTrue := func(why string) error {
		on, err := l.bool()
		if err == nil && on {
			err = l.unsupported(why)
		}
		return err
	}
	switch key {
	case "storePathRootDir":
		if l.value == "" {
			return l.bad("a directory")
		}
		p.b.StorePathRootDir = l.value
	case "storePathCommitLog":
		if strings.Contains(l.value, ",") {
			return l.unsupported("several commit log directories")
		}
		p.o.CommitLogDir = l.value
	case "readOnlyCommitLogStorePaths":
		if l.value != "" {
			return l.unsupported("several commit log directories")
		}
	case "enableDLegerCommitLog":
		return refuseTrue("a DLedger commit log has another format; this store's replication is classic master and slave")
	case "storeType":
		if l.value != "default" {
			return l.unsupported("consume queues in RocksDB; must be default")
		}
	case "mappedFileSizeCommitLog":
		n, err := l.int(1024, maxInt32)
		p.o.SegmentSize = n
		return err
	case "mappedFileSizeConsumeQueue":
		n, err := l.int(20, maxInt32)
		p.o.QueueFileSize = (n + 19) / 20 * 20
		return err
	case "flushIntervalCommitLog":
		return ms(&p.o.FlushEvery)
	case "flushIntervalConsumeQueue":
		return ms(&p.o.QueueFlushEvery)
	case "flushConsumeQueueThoroughInterval":
		return ms(&p.o.CheckpointEvery)
	case "syncFlushTimeout":
		return ms(&p.o.SyncFlushTimeout)
	case "osPageCacheBusyTimeOutMills":
		return ms(&p.o.PutBusyAfter)
	case "maxMessageSize":
		return count(&p.o.MaxMessageSize, 10)
	case "maxTransferBytesOnMessageInMemory":
		return count(&p.o.MaxTransferBytesInMemory, 1)
	case "maxTransferCountOnMessageInMemory":
		return count(&p.o.MaxTransferMessagesInMemory, 1)
	case "maxTransferBytesOnMessageInDisk":
		return count(&p.o.MaxTransferBytesInDisk, 1)
	case "maxTransferCountOnMessageInDisk":
		return count(&p.o.MaxTransferMessagesInDisk, 1)
	case "accessMessageInMemoryMaxRatio":
		n, err := l.int(1, 100)
		p.o.AccessInMemoryMaxRatio = int(n)
		return err
	case "messageIndexEnable":
		on, err := l.bool()
		p.o.Index.Off = !on
		return err
	case "maxMsgsNumBatch":
		return count(&p.o.Index.MaxResults, 1)
	case "maxHashSlotNum":
		return count(&p.o.Index.FileSlots, 1)
	case "maxIndexNum":
		return count(&p.o.Index.FileEntries, 2)
	case "offsetCheckInSlave":
		return flag(&p.o.OffsetCheckInSlave)
	case "readUnCommitted":
		return flag(&p.o.ReadUncommitted)
	case "enableMultiDispatch":
		return flag(&p.o.MultiDispatch)
	case "messageDelayLevel":
		if _, err := record.ParseDelayTable(l.value); err != nil {
			return fmt.Errorf("%w (%w)", l.bad(`times with unit s, m, h or d, separated by one space: "1s 5s 10s"`), err)
		}
		p.o.DelayLevels = l.value
	case "flushDiskType":
		switch l.value {
		case "ASYNC_FLUSH":
			p.o.FlushMode = AsyncFlush
		case "SYNC_FLUSH":
			p.o.FlushMode = SyncFlush
		default:
			return l.bad("ASYNC_FLUSH or SYNC_FLUSH")
		}
	case "brokerRole":
		switch l.value {
		case "ASYNC_MASTER":
			p.o.Role = AsyncMaster
		case "SYNC_MASTER":
			p.o.Role = SyncMaster
		case "SLAVE":
			p.o.Role = Slave
		default:
			return l.bad("ASYNC_MASTER, SYNC_MASTER or SLAVE")
		}
	case "fileReservedTime":
		n, err := l.int(1, 24*366*100)
		p.b.FileReserved = time.Duration(n) * time.Hour
		return err
	case "deleteWhen":
		p.b.DeleteWhen = nil
		for part := range strings.SplitSeq(l.value, ";") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			h, err := strconv.Atoi(part)
			if err != nil || h < 0 || h > 23 {
				return l.bad(`hours from 00 to 23, separated by ";"`)
			}
			p.b.DeleteWhen = append(p.b.DeleteWhen, h)
		}
	case "diskMaxUsedSpaceRatio":
		if err := count(&p.b.MaxDiskRatio, 0); err != nil {
			return err
		}
		p.b.MaxDiskRatio = min(max(p.b.MaxDiskRatio, 10), 95)
	case "cleanFileForciblyEnable":
		return flag(&p.b.CleanForcibly)
	case "haListenPort":
		p.haPort = true
		return count(&p.b.HAListenPort, 1)
	case "haMasterAddress":
		if p.b.HAMasterAddr = l.value; len(l.value) < minMasterAddress { // as in 4.9.8
			break
		}
		if checkMasterAddress(l.value) != nil {
			return l.bad("host:port of the master's HA listener")
		}
		p.o.HA.MasterAddress = l.value
	case "slaveTimeout":
		return ms(&p.o.HA.SlaveTimeout)
	case "haSendHeartbeatInterval":
		return ms(&p.o.HA.Heartbeat)
	case "haHousekeepingInterval":
		return ms(&p.o.HA.Housekeeping)
	case "haTransferBatchSize":
		n, err := l.int(1, 4<<20-12)
		p.o.HA.BatchSize = int(n)
		return err
	case "haSlaveFallbehindMax", "haMaxGapNotInSync":
		n, err := l.int(1, maxInt32)
		p.o.HA.FallBehindMax = n
		return err
	case "inSyncReplicas":
		n, err := l.int(1, 128)
		p.o.HA.RequiredAcks = int(max(n-1, 1)) // the master counts there; a SYNC_MASTER of 4.9.8 waits for one slave
		return err
	case "autoMessageVersionOnTopicLen":
		return flag(&p.o.AllowV2)

	// Of the broker.
	case "brokerName":
		p.b.Name = l.value
	case "brokerClusterName":
		p.b.ClusterName = l.value
	case "brokerIP1":
		p.b.IP1 = l.value
	case "brokerIP2":
		p.b.IP2 = l.value
	case "namesrvAddr":
		p.b.NamesrvAddr = l.value
	case "listenPort":
		n, err := l.int(1, 65535)
		p.b.ListenPort = int(n)
		return err
	case "brokerId":
		n, err := strconv.ParseInt(l.value, 10, 64)
		if err != nil {
			return l.bad("a number, 0 for a master (-1 is DLedger's)")
		}
		if n < 0 {
			return l.unsupported("a negative broker id is DLedger's")
		}
		p.b.ID = n

	default:
		switch {
		case known:
			if l.value != k.def {
				p.report(l, withoutEffect(key, k))
			}
		case brokerOnly[key]:
			p.report(l, "a setting of the broker process, not of its store")
		case key == "storeCheckpoint" || key == "abortFile" || key == "storePathConsumeQueue" || key == "storePathIndex":
			// Judged in finish, when the root is known.
		default:
			p.report(l, "unknown key")
		}
	}
	return nil
}

// checkKind checks the value against the property's Java type.
func (l propertyLine) checkKind(k keyKind) error {
	var err error
	switch k {
	case intKey:
		_, err = l.int(-maxInt32-1, maxInt32)
	case longKey:
		_, err = l.int(-1<<63, 1<<63-1)
	case boolKey:
		_, err = l.bool()
	case doubleKey:
		if _, ferr := strconv.ParseFloat(l.value, 64); ferr != nil {
			err = l.bad("a decimal number")
		}
	}
	return err
}

// withoutEffect says why a property of the original's store changes nothing here.
func withoutEffect(key string, k propertyKey) string {
	switch key {
	case "transientStorePoolEnable", "transientStorePoolSize", "fastFailIfNoBufferInStorePool", "commitIntervalCommitLog", "commitCommitLogLeastPages", "commitCommitLogThoroughInterval":
		return "without effect: there is no transient store pool, appends go straight into the mapped file"
	case "dLegerGroup", "dLegerPeers", "dLegerSelfId", "preferredLeaderId", "storePathDLedgerCommitLog", "isEnableBatchPush", "enableBatchPush":
		return "without effect: it belongs to DLedger, which is not enabled"
	case "enableConsumeQueueExt", "mappedFileSizeConsumeQueueExt", "bitMapLengthConsumeQueueExt":
		return "without effect: extension units are read but not written"
	case "enableLmq", "maxLmqConsumeQueueNum":
		return "without effect: light queues are read but not written"
	case "warmMapedFileEnable", "flushLeastPagesWhenWarmMapedFile":
		return "without effect: the next file is always made ahead, and pages a little ahead of the writer"
	case "messageIndexSafe":
		return "without effect: the index always continues from its own durable progress, nothing of it is lost in a crash"
	case "defaultQueryMaxNum":
		return "without effect: it belongs to the broker process"
	case "duplicationEnable":
		return "without effect: dispatch goes by what is flushed"
	}
	if k.v5 {
		return "without effect: a setting of RocketMQ 5 that this store has no use for"
	}
	return "without effect: this store has no use for it"
}

// finish sets what depends on several lines.
func (p *properties) finish(lines []propertyLine, last map[string]int) {
	if !p.haPort {
		p.b.HAListenPort = p.b.ListenPort + 1
	}
	for key, where := range map[string]string{"storeCheckpoint": "checkpoint", "abortFile": "abort", "storePathConsumeQueue": "consumequeue", "storePathIndex": "index"} {
		i, ok := last[key]
		if !ok {
			continue
		}
		if at := filepath.Join(p.b.StorePathRootDir, where); filepath.Clean(lines[i].value) != at {
			p.report(lines[i], "without effect, as in 4.9.8: it is "+at)
		}
	}
}

type propertyLine struct {
	key, value string
	line       int // of its first physical line
}

// parseProperties reads Java's .properties syntax: comments, continued lines, escapes; bytes are ISO 8859-1.
func parseProperties(b []byte) ([]propertyLine, error) {
	var lines []propertyLine
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
	physical := strings.Split(text, "\n")
	const space = " \t\f"
	for i := 0; i < len(physical); i++ {
		first := i + 1
		logical := strings.TrimLeft(physical[i], space)
		if logical == "" || logical[0] == '#' || logical[0] == '!' {
			continue
		}
		for continues(logical) {
			logical = logical[:len(logical)-1]
			if i++; i == len(physical) {
				break
			}
			logical += strings.TrimLeft(physical[i], space)
		}
		if logical == "" {
			continue
		}
		end := 0
		for end < len(logical) && !strings.ContainsRune("=: \t\f", rune(logical[end])) {
			if logical[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(logical))
		rest := strings.TrimLeft(logical[end:], space)
		if rest != "" && (rest[0] == '=' || rest[0] == ':') {
			rest = strings.TrimLeft(rest[1:], space)
		}
		key, err := unescape(logical[:end], first)
		if err != nil {
			return nil, err
		}
		value, err := unescape(rest, first)
		if err != nil {
			return nil, err
		}
		lines = append(lines, propertyLine{key: key, value: strings.TrimSpace(value), line: first})
	}
	return lines, nil
}

// continues reports whether a line ends in an odd number of backslashes.
func continues(s string) bool {
	n := len(s) - len(strings.TrimRight(s, `\`))
	return n%2 == 1
}

func unescape(s string, line int) (string, error) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			out.WriteRune(rune(c))
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", fmt.Errorf("line %d: \\u needs four hexadecimal digits", line)
			}
			n, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", fmt.Errorf("line %d: \\u%s: \\u needs four hexadecimal digits", line, s[i+1:i+5])
			}
			out.WriteRune(rune(n))
			i += 4
		default:
			out.WriteRune(rune(s[i]))
		}
	}
	return out.String(), nil
}
