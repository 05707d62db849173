package conformance

import (
	"cmp"
	"strings"
)

// The tests of the original, class by class (RocketMQ 4.9.8 and 5.3.3). What one of them verifies is a law here, which names it (Law.Tests), or it is none for the reason that its class has. doc.go lists the latter; a test keeps all complete.

type versions uint8

const (
	in498 versions = 1 << iota
	in533
)

// feature is some tests of one class.
type feature struct {
	class string
	in    versions
	why   string // those that no law names are none
	tests []string
}

const (
	whyExt        = "extension units are files beside a queue: package consumequeue"
	whyUnits      = "how a queue keeps its units is its own affair: package consumequeue"
	whyRetention  = "when a broker deletes, and how much of a disk may be full, is configuration: package store, DeleteExpired. What deletion does to the bounds of log and queues are laws"
	whyShutdown   = "what an unclean exit leaves in a directory: package store/internal/recovery"
	whyFiles      = "mapped files and their sequence, which no caller of a store sees: packages commitlog/mappedfile and commitlog"
	whyPaths      = "a log in several directories, which a caller does not see, and which is not offered here"
	whyDelivery   = "the delivery service of a broker. What a store does with delayed messages are laws"
	whyCheckpoint = "a file of the directory: package checkpoint"
	whyStats      = "statistics of a broker, by topic and group; a store counts in Stats"
	whyThreads    = "tools to wait and to lock with: nothing of them is seen from outside"
	whyIndexFile  = "RocketMQ's index file: package index/indexfile"
	whyRecord     = "the bytes of one record: package commitlog/record"
	whyReput      = "where PutOK does not mean on disk, what is on disk when a message is shown is the maker's choice (Config.SyncFlush)"
	whyRocksDB    = "queues in RocksDB. The laws know nothing of how queues are kept: those of DefaultMessageStoreTest are the same"
	whyHA         = "the wire between master and slave: package ha. What both then answer are laws"
	whyEpochs     = "epochs and controller of RocketMQ 5: such directories are refused (ErrUnsupported)"
	whyKV         = "topics that are compacted by key (RocketMQ 5): not offered"
	whyPop        = "receipts of RocketMQ 5's pop consumption: a broker's"
	whyBatchQueue = "queues of whole batches (RocketMQ 5): such directories are refused (ErrUnsupported)"
	whyEstimate   = "an estimate of how many messages a filter lets through (RocketMQ 5): not offered"
	whyDLedger    = "DLedger's log: such directories are refused (ErrUnsupported)"
	whyTimer      = "messages of any delay (RocketMQ 5's timer wheel): not offered"
	whyDirectory  = "a store may be behind a wire, and have no directory: packages store and store/internal/recovery"
	whyTopics     = "deletion of topics: not offered"
	whyOptions    = "options are fixed while a store is open"
	whyActing     = "slaves that act for their master (RocketMQ 5): not offered"
)

const both = in498 | in533

var features = []feature{
	{"AppendCallbackTest", both, "", []string{"testAppendMessageBatchEndOfFile", "testAppendIPv6HostMessageBatchEndOfFile", "testAppendMessageBatchSucc", "testAppendIPv6HostMessageBatchSucc"}},
	{"BatchPutMessageTest", both, "", []string{"testPutMessages", "testPutIPv6HostMessages"}},
	{"BatchPutMessageTest", in498, "", []string{"testPutLongBatchMessage"}},
	{"ConsumeQueueExtTest", both, whyExt, []string{"testPut", "testGet", "testGet_invalidAddress", "testRecovery", "testTruncateByMinOffset", "testTruncateByMaxOffset"}},
	{"ConsumeQueueTest", both, whyUnits, []string{"testPutMessagePositionInfo_buildCQRepeatedly", "testPutMessagePositionInfoWrapper_MultiQueue", "testPutMessagePositionInfoMultiQueue", "testConsumeQueueWithExtendData"}},
	{"ConsumeQueueTest", in533, "", []string{"testCorrectMinOffset"}},
	{"DefaultMessageStoreCleanFilesTest", both, whyRetention, []string{"testIsSpaceFullFunctionEmpty2Full", "testIsSpaceFullMultiCommitLogStorePath", "testIsSpaceFullFunctionFull2Empty", "testDeleteExpiredFilesByTimeUp", "testDeleteExpiredFilesBySpaceFull", "testDeleteFilesImmediatelyBySpaceFull", "testDeleteExpiredFilesManually"}},
	{"DefaultMessageStoreShutDownTest", both, whyShutdown, []string{"testDispatchBehindWhenShutdown"}},
	{"DefaultMessageStoreTest", both, whyDirectory, []string{"test_repeat_restart", "testRecover", "testStorePathOK"}},
	{"DefaultMessageStoreTest", both, "", []string{"testWriteAndRead", "testLookMessageByOffset_OffsetIsFirst", "testLookMessageByOffset_OffsetIsLast", "testLookMessageByOffset_OffsetIsOutOfBound", "testGetOffsetInQueueByTime", "testGetOffsetInQueueByTime_TimestampIsSkewing", "testGetOffsetInQueueByTime_TimestampSkewingIsLarge", "testGetOffsetInQueueByTime_ConsumeQueueNotFound1", "testGetOffsetInQueueByTime_ConsumeQueueNotFound2", "testGetOffsetInQueueByTime_ConsumeQueueOffsetNotExist", "testGetMessageStoreTimeStamp", "testGetStoreTime_EverythingIsOk", "testGetStoreTime_PhyOffsetIsLessThanCommitLogMinOffset", "testPullSize", "testPutLongMessage"}},
	{"DefaultMessageStoreTest", both, whyUnits, []string{"testGetStoreTime_ParamIsNull"}},
	{"DefaultMessageStoreTest", in498, whyTopics, []string{"testCleanUnusedLmqTopic"}},
	{"DefaultMessageStoreTest", both, whyOptions, []string{"testDynamicMaxMessageSize"}},
	{"DefaultMessageStoreTest", in533, "", []string{"testPutMessage_whenMessagePropertyIsTooLong", "testGroupCommit", "testMaxOffset", "testPutMsgExceedsMaxLength", "testPutMsgBatchExceedsMaxLength"}},
	{"DefaultMessageStoreTest", in533, whyActing, []string{"testPutMsgWhenReplicasNotEnough", "testPutMsgWhenAdaptiveDegradation"}},
	{"DefaultMessageStoreTest", in533, whyHA, []string{"testGetBulkCommitLogData"}},
	{"DefaultMessageStoreTest", in533, whyTopics, []string{"testDeleteTopics", "testCleanUnusedTopic"}},
	{"DefaultMessageStoreTest", in533, whyOptions, []string{"testChangeStoreConfig"}},
	{"FlushDiskWatcherTest", both, "", []string{"testTimeout", "testWatcher"}},
	{"HATest", both, "", []string{"testHandleHA", "testSemiSyncReplica"}},
	{"HATest", in533, whyActing, []string{"testSemiSyncReplicaWhenSlaveActingMaster", "testSemiSyncReplicaWhenAdaptiveDegradation"}},
	{"MappedFileQueueTest", both, whyFiles, []string{"testGetLastMappedFile", "testFindMappedFileByOffset", "testFindMappedFileByOffset_StartOffsetIsNonZero", "testAppendMessage", "testGetMappedMemorySize", "testDeleteExpiredFileByOffset", "testDeleteExpiredFileByTime", "testFindMappedFile_ByIteration"}},
	{"MappedFileQueueTest", in533, whyFiles, []string{"testMappedFile_SwapMap", "testMappedFile_CleanSwapedMap", "testMappedFile_Rename", "testReset"}},
	{"MappedFileTest", both, "", []string{"testSelectMappedBuffer"}},
	{"MultiDispatchTest", in498, "", []string{"queueKey", "wrapMultiDispatch", "updateMultiQueueOffset"}},
	{"MultiPathMappedFileQueueTest", both, whyPaths, []string{"testGetLastMappedFile", "testLoadReadOnlyMappedFiles", "testUpdatePathsOnline", "testFullStorePath"}},
	{"ScheduleMessageServiceTest", in498, whyDelivery, []string{"testCorrectDelayOffset_whenInit", "testHandlePutResultTask"}},
	{"StoreCheckpointTest", both, whyCheckpoint, []string{"testWriteAndRead"}},
	{"StoreStatsServiceTest", both, whyStats, []string{"getSinglePutMessageTopicSizeTotal", "getSinglePutMessageTopicTimesTotal", "findPutMessageEntireTimePXTest"}},
	{"dledger/DLedgerCommitlogTest", both, whyDLedger, []string{"testTruncateCQ", "testRecover", "testPutAndGetMessage", "testBatchPutAndGetMessage", "testAsyncPutAndGetMessage", "testAsyncBatchPutAndGetMessage", "testCommittedPos", "testIPv6HostMsgCommittedPos"}},
	{"dledger/DLedgerCommitlogTest", in533, whyDLedger, []string{"testDLedgerAbnormallyRecover"}},
	{"dledger/DLedgerMultiPathTest", both, whyDLedger, []string{"multiDirsStorageTest"}},
	{"dledger/MixCommitlogTest", both, whyDLedger, []string{"testFallBehindCQ", "testPutAndGet", "testDeleteExpiredFiles"}},
	{"ha/WaitNotifyObjectTest", both, whyThreads, []string{"removeFromWaitingThreadTable"}},
	{"index/IndexFileTest", both, "", []string{"testPutKey", "testSelectPhyOffset"}},
	{"schedule/ScheduleMessageServiceTest", in498, "", []string{"deliverDelayedMessageTimerTaskTest", "otherTest"}},
	{"stats/BrokerStatsManagerTest", both, whyStats, []string{"testGetStatsItem", "testIncQueuePutNums", "testIncQueuePutSize", "testIncQueueGetNums", "testIncQueueGetSize", "testIncTopicPutNums", "testIncTopicPutSize", "testIncGroupGetNums", "testIncGroupGetSize", "testIncGroupGetLatency", "testIncBrokerPutNums", "testOnTopicDeleted", "testOnGroupDeleted"}},
	{"stats/BrokerStatsManagerTest", in533, whyStats, []string{"testIncBrokerGetNumsWithoutSystemTopic", "testIncBrokerPutNumsWithoutSystemTopic"}},
	{"AppendPropCRCTest", in533, whyRecord, []string{"testAppendMessageSucc", "testAppendMessageBatchSucc"}},
	{"GetMessageResultTest", in533, whyStats, []string{"testAddMessage"}},
	{"MessageExtBrokerInnerTest", in533, whyRecord, []string{"testDeleteProperty"}},
	{"ReputMessageServiceTest", in533, whyReput, []string{"testReputEndOffset_whenSyncFlush", "testReputEndOffset_whenAsyncFlush"}},
	{"RocksDBMessageStoreTest", in533, whyRocksDB, []string{"test_repeat_restart", "testWriteAndRead", "testLookMessageByOffset_OffsetIsFirst", "testLookMessageByOffset_OffsetIsLast", "testLookMessageByOffset_OffsetIsOutOfBound", "testGetOffsetInQueueByTime", "testGetOffsetInQueueByTime_TimestampIsSkewing", "testGetOffsetInQueueByTime_TimestampSkewingIsLarge", "testGetOffsetInQueueByTime_ConsumeQueueNotFound1", "testGetOffsetInQueueByTime_ConsumeQueueNotFound2", "testGetOffsetInQueueByTime_ConsumeQueueOffsetNotExist", "testGetMessageStoreTimeStamp", "testGetStoreTime_ParamIsNull", "testGetStoreTime_EverythingIsOk", "testGetStoreTime_PhyOffsetIsLessThanCommitLogMinOffset", "testPutMessage_whenMessagePropertyIsTooLong", "testGroupCommit", "testMaxOffset", "testPullSize", "testRecover", "testStorePathOK", "testPutMsgExceedsMaxLength", "testPutMsgBatchExceedsMaxLength", "testPutMsgWhenReplicasNotEnough", "testPutMsgWhenAdaptiveDegradation", "testGetBulkCommitLogData", "testPutLongMessage", "testDynamicMaxMessageSize", "testDeleteTopics", "testCleanUnusedTopic"}},
	{"ha/FlowMonitorTest", in533, whyHA, []string{"testLimit", "testSpeed"}},
	{"ha/HAClientTest", in533, whyHA, []string{"updateMasterAddress", "updateHaMasterAddress"}},
	{"ha/HAServerTest", in533, whyHA, []string{"testConnectionList_OneHAClient", "testConnectionList_MultipleHAClient", "inSyncReplicasNums", "isSlaveOK", "putRequest_SingleAck", "putRequest_MultipleAckAndRequests", "getPush2SlaveMaxOffset"}},
	{"ha/autoswitch/AutoSwitchHATest", in533, whyEpochs, []string{"testConfirmOffset", "testAsyncLearnerBrokerRole", "testOptionAllAckInSyncStateSet", "testChangeRoleManyTimes", "testAddBroker", "testTruncateEpochLogAndAddBroker", "testTruncateEpochLogAndChangeMaster", "testAddBrokerAndSyncFromLastFile", "testCheckSynchronizingSyncStateSetFlag", "testBuildConsumeQueueNotExceedConfirmOffset"}},
	{"ha/autoswitch/EpochFileCacheTest", in533, whyEpochs, []string{"testInitFromFile", "testTruncate", "testFindEpochEntryByOffset", "testFindConsistentPointSample1", "testFindConsistentPointSample2", "testFindConsistentPointSample3", "testFindConsistentPointSample4"}},
	{"index/IndexServiceTest", in533, "", []string{"testQueryOffsetThrow"}},
	{"kv/CompactionLogTest", in533, whyKV, []string{"testCheck", "testCheckWithException", "testCompaction", "testReplaceFiles"}},
	{"kv/CompactionPositionMgrTest", in533, whyKV, []string{"testGetAndSet", "testLoadAndPersist"}},
	{"kv/OffsetMapTest", in533, whyKV, []string{"testPutAndGet", "testFull"}},
	{"lock/AdaptiveLockTest", in533, whyThreads, []string{"testAdaptiveLock"}},
	{"logfile/DefaultMappedFileTest", in533, whyFiles, []string{"testWriteFile"}},
	{"pop/AckMsgTest", in533, whyPop, []string{"testSerializeAndDeSerialize"}},
	{"pop/BatchAckMsgTest", in533, whyPop, []string{"testSerializeAndDeSerialize"}},
	{"queue/BatchConsumeMessageTest", in533, whyBatchQueue, []string{"testSendMessagesToCqTopic", "testSendMessagesToBcqTopic", "testConsumeBatchMessage", "testNextBeginOffsetConsumeBatchMessage", "testGetOffsetInQueueByTime", "testDispatchNormalConsumeQueue", "testDispatchBuildBatchConsumeQueue", "testGetBatchMessageWithinNumber", "testGetBatchMessageWithinSize", "testEstimateMessageCountInEmptyConsumeQueue", "testEstimateMessageCount", "testEstimateMessageCountSample"}},
	{"queue/BatchConsumeQueueTest", in533, whyBatchQueue, []string{"testBuildAndIterateBatchConsumeQueue", "testBuildAndSearchBatchConsumeQueue", "testBuildAndRecoverBatchConsumeQueue", "testTruncateBatchConsumeQueue", "testTruncateAndDeleteBatchConsumeQueue"}},
	{"queue/ConsumeQueueStoreTest", in533, whyBatchQueue, []string{"testLoadConsumeQueuesWithWrongAttribute", "testLoadBatchConsumeQueuesWithWrongAttribute"}},
	{"queue/ConsumeQueueTest", in533, whyUnits, []string{"testIterator"}},
	{"queue/ConsumeQueueTest", in533, whyEstimate, []string{"testEstimateMessageCountInEmptyConsumeQueue", "testEstimateRocksdbMessageCountInEmptyConsumeQueue", "testEstimateRocksdbMessageCount", "testEstimateMessageCount", "testEstimateRocksdbMessageCountSample", "testEstimateMessageCountSample"}},
	{"queue/RocksDBConsumeQueueOffsetTableTest", in533, whyRocksDB, []string{"testForEach"}},
	{"queue/RocksDBConsumeQueueTableTest", in533, "", []string{"testBinarySearchInCQByTime"}},
	{"queue/RocksDBConsumeQueueTest", in533, whyRocksDB, []string{"testIterator"}},
	{"queue/SparseConsumeQueueTest", in533, whyKV, []string{"testLoad", "testSearch", "testCreateFile"}},
	{"rocksdb/RocksDBOptionsFactoryTest", in533, whyRocksDB, []string{"testBottomMostCompressionType"}},
	{"timer/TimerCheckPointTest", in533, whyTimer, []string{"testCheckPoint", "testNewCheckPoint", "testEncodeDecode", "testNewEncodeDecode"}},
	{"timer/TimerLogTest", in533, whyTimer, []string{"testAppendRollSelectDelete", "testRecovery"}},
	{"timer/TimerMessageStoreTest", in533, whyTimer, []string{"testPutTimerMessage", "testRetryUntilSuccess", "testTimerFlowControl", "testPutExpiredTimerMessage", "testDeleteTimerMessage", "testDeleteTimerMessage_ukCollision", "testPutDeleteTimerMessage", "testStateAndRecover", "testMaxDelaySec", "testRollMessage"}},
	{"timer/TimerMetricsTest", in533, whyTimer, []string{"testTimingCount", "testTimingDistribution"}},
	{"timer/TimerWheelTest", in533, whyTimer, []string{"testPutGet", "testGetNum", "testCheckPhyPos", "testPutRevise", "testRecoveryData", "testRecoveryFixedTTL"}},
}

// named is the IDs of the laws that name a test of the original, by "Class.test". Laws may leave out the class's directory.
func named(laws []Law) map[string][]string {
	full := map[string]string{}
	for _, f := range features {
		for _, test := range f.tests {
			name := f.class + "." + test
			full[name] = name
			if _, short, ok := strings.Cut(name, "/"); ok && full[short] == "" {
				full[short] = name
			}
		}
	}
	ids := map[string][]string{}
	for _, l := range laws {
		for _, test := range l.Tests {
			name := cmp.Or(full[test], test)
			ids[name] = append(ids[name], l.ID)
		}
	}
	return ids
}

// noLaws is what doc.go lists: the tests of the original that are no law, by reason.
func noLaws(laws []Law) (lines []string) {
	ids := named(laws)
	var whys []string
	tests := map[string][]string{}
	for _, f := range features {
		var none []string
		for _, test := range f.tests {
			if ids[f.class+"."+test] == nil {
				none = append(none, test)
			}
		}
		if none == nil {
			continue
		}
		if tests[f.why] == nil {
			whys = append(whys, f.why)
		}
		in := map[versions]string{in498: " (4.9.8)", in533: " (5.3.3)", both: ""}[f.in]
		tests[f.why] = append(tests[f.why], f.class+in+" "+strings.Join(none, ", "))
	}
	for _, why := range whys {
		lines = append(lines, strings.Join(tests[why], "; ")+": "+why)
	}
	return lines
}
