// Package conformance is the laws of a message store, for any engine: each a statement, the reason why it holds, and a check of it that uses nothing but the interfaces of package store.
//
// An author of an engine adopts it in one line:
//
//	func TestLaws(t *testing.T) {
//		conformance.Run(t, func(_ context.Context, c conformance.Config) (conformance.Store, error) { return engine.Open(t.TempDir(), c) })
//	}
//
// Each law is a subtest, named for its ID ("put-003"). Every broken law is reported, not the first one, with its statement, its reason, and all that was wrong. Outside of go test, Check joins what is broken into one error,
// and Examine tells law by law.
//
// # What is asked of a store
//
// The least is Store: it puts, gets and says where queues begin and end. Whatever else the laws speak of is found by assertion, on the store that the maker returned: store.BatchPutter, store.AsyncPutter, store.Looker, store.Querier,
// store.Scanner, store.Admin, and the abilities declared here (Reopener, Crasher, Expirer, Replicator …). A law about something that a store does not have is skipped, and says so.
//
// A store may be behind a wire: no law looks at memory, files or goroutines. Time is the clock that the maker was given, if it can be set; else the machine's, and laws ask about times relative to those of the messages they put.
// A message may become visible a moment after its put was answered; laws wait for it.
//
// # Stores are shared
//
// Laws that need the same Config get the same store, one after the other, and use topics of their own. A law that must be alone (Law.Own) gets a store of its own. A maker is therefore called some dozens of times, not hundreds.
//
// # Adding a law
//
// A law is a value in a file laws_<area>.go. It has a mutant in mutants_<area>_test.go: the smallest wrong store that breaks it, and at most ten laws in all.
//
// # What is no law
//
// Laws speak of what a caller of a store sees. Which test of the original became which law is said by Law.Tests.
//
// Tests of the original (RocketMQ 4.9.8 and 5.3.3) that are not named by a law, and why:
//
//   - ConsumeQueueExtTest testPut, testGet, testGet_invalidAddress, testRecovery, testTruncateByMinOffset, testTruncateByMaxOffset: extension units are files beside a queue: package consumequeue
//   - ConsumeQueueTest testPutMessagePositionInfo_buildCQRepeatedly, testConsumeQueueWithExtendData; DefaultMessageStoreTest testGetStoreTime_ParamIsNull; queue/ConsumeQueueTest (5.3.3) testIterator: how a queue keeps its units is its own affair: package consumequeue
//   - DefaultMessageStoreCleanFilesTest testIsSpaceFullFunctionEmpty2Full, testIsSpaceFullMultiCommitLogStorePath, testIsSpaceFullFunctionFull2Empty, testDeleteExpiredFilesBySpaceFull, testDeleteFilesImmediatelyBySpaceFull, testDeleteExpiredFilesManually: when a broker deletes, and how much of a disk may be full, is configuration: package store, DeleteExpired. What deletion does to the bounds of log and queues are laws
//   - DefaultMessageStoreShutDownTest testDispatchBehindWhenShutdown: what an unclean exit leaves in a directory: package store/internal/recovery
//   - DefaultMessageStoreTest test_repeat_restart, testStorePathOK: a store may be behind a wire, and have no directory: packages store and store/internal/recovery
//   - DefaultMessageStoreTest (4.9.8) testCleanUnusedLmqTopic; DefaultMessageStoreTest (5.3.3) testDeleteTopics, testCleanUnusedTopic: deletion of topics: not offered
//   - DefaultMessageStoreTest testDynamicMaxMessageSize; DefaultMessageStoreTest (5.3.3) testChangeStoreConfig: options are fixed while a store is open
//   - DefaultMessageStoreTest (5.3.3) testPutMsgWhenReplicasNotEnough, testPutMsgWhenAdaptiveDegradation; HATest (5.3.3) testSemiSyncReplicaWhenSlaveActingMaster, testSemiSyncReplicaWhenAdaptiveDegradation: slaves that act for their master (RocketMQ 5): not offered
//   - DefaultMessageStoreTest (5.3.3) testGetBulkCommitLogData; ha/FlowMonitorTest (5.3.3) testLimit, testSpeed; ha/HAClientTest (5.3.3) updateMasterAddress, updateHaMasterAddress; ha/HAServerTest (5.3.3) testConnectionList_OneHAClient, testConnectionList_MultipleHAClient, inSyncReplicasNums, isSlaveOK, putRequest_SingleAck, putRequest_MultipleAckAndRequests, getPush2SlaveMaxOffset: the wire between master and slave: package ha. What both then answer are laws
//   - MappedFileQueueTest testGetLastMappedFile, testFindMappedFileByOffset, testAppendMessage, testGetMappedMemorySize, testFindMappedFile_ByIteration; MappedFileQueueTest (5.3.3) testMappedFile_SwapMap, testMappedFile_CleanSwapedMap, testMappedFile_Rename, testReset; logfile/DefaultMappedFileTest (5.3.3) testWriteFile: mapped files and their sequence, which no caller of a store sees: packages commitlog/mappedfile and commitlog
//   - MultiPathMappedFileQueueTest testGetLastMappedFile, testLoadReadOnlyMappedFiles, testUpdatePathsOnline, testFullStorePath: a log in several directories, which a caller does not see, and which is not offered here
//   - ScheduleMessageServiceTest (4.9.8) testCorrectDelayOffset_whenInit, testHandlePutResultTask: the delivery service of a broker. What a store does with delayed messages are laws
//   - StoreCheckpointTest testWriteAndRead: a file of the directory: package checkpoint
//   - StoreStatsServiceTest getSinglePutMessageTopicSizeTotal, getSinglePutMessageTopicTimesTotal, findPutMessageEntireTimePXTest; stats/BrokerStatsManagerTest testGetStatsItem, testIncQueuePutNums, testIncQueuePutSize, testIncQueueGetNums, testIncQueueGetSize, testIncTopicPutNums, testIncTopicPutSize, testIncGroupGetNums, testIncGroupGetSize, testIncGroupGetLatency, testIncBrokerPutNums, testOnTopicDeleted, testOnGroupDeleted; stats/BrokerStatsManagerTest (5.3.3) testIncBrokerGetNumsWithoutSystemTopic, testIncBrokerPutNumsWithoutSystemTopic; GetMessageResultTest (5.3.3) testAddMessage: statistics of a broker, by topic and group; a store counts in Stats
//   - dledger/DLedgerCommitlogTest testTruncateCQ, testRecover, testPutAndGetMessage, testBatchPutAndGetMessage, testAsyncPutAndGetMessage, testAsyncBatchPutAndGetMessage, testCommittedPos, testIPv6HostMsgCommittedPos; dledger/DLedgerCommitlogTest (5.3.3) testDLedgerAbnormallyRecover; dledger/DLedgerMultiPathTest multiDirsStorageTest; dledger/MixCommitlogTest testFallBehindCQ, testPutAndGet, testDeleteExpiredFiles: DLedger's log: such directories are refused (ErrUnsupported)
//   - ha/WaitNotifyObjectTest removeFromWaitingThreadTable; lock/AdaptiveLockTest (5.3.3) testAdaptiveLock: tools to wait and to lock with: nothing of them is seen from outside
//   - AppendPropCRCTest (5.3.3) testAppendMessageSucc, testAppendMessageBatchSucc; MessageExtBrokerInnerTest (5.3.3) testDeleteProperty: the bytes of one record: package commitlog/record
//   - ReputMessageServiceTest (5.3.3) testReputEndOffset_whenAsyncFlush: where PutOK does not mean on disk, what is on disk when a message is shown is the maker's choice (Config.SyncFlush)
//   - RocksDBMessageStoreTest (5.3.3) test_repeat_restart, testWriteAndRead, testLookMessageByOffset_OffsetIsFirst, testLookMessageByOffset_OffsetIsLast, testLookMessageByOffset_OffsetIsOutOfBound, testGetOffsetInQueueByTime, testGetOffsetInQueueByTime_TimestampIsSkewing, testGetOffsetInQueueByTime_TimestampSkewingIsLarge, testGetOffsetInQueueByTime_ConsumeQueueNotFound1, testGetOffsetInQueueByTime_ConsumeQueueNotFound2, testGetOffsetInQueueByTime_ConsumeQueueOffsetNotExist, testGetMessageStoreTimeStamp, testGetStoreTime_ParamIsNull, testGetStoreTime_EverythingIsOk, testGetStoreTime_PhyOffsetIsLessThanCommitLogMinOffset, testPutMessage_whenMessagePropertyIsTooLong, testGroupCommit, testMaxOffset, testPullSize, testRecover, testStorePathOK, testPutMsgExceedsMaxLength, testPutMsgBatchExceedsMaxLength, testPutMsgWhenReplicasNotEnough, testPutMsgWhenAdaptiveDegradation, testGetBulkCommitLogData, testPutLongMessage, testDynamicMaxMessageSize, testDeleteTopics, testCleanUnusedTopic; queue/RocksDBConsumeQueueOffsetTableTest (5.3.3) testForEach; queue/RocksDBConsumeQueueTest (5.3.3) testIterator; rocksdb/RocksDBOptionsFactoryTest (5.3.3) testBottomMostCompressionType: queues in RocksDB. The laws know nothing of how queues are kept: those of DefaultMessageStoreTest are the same
//   - ha/autoswitch/AutoSwitchHATest (5.3.3) testConfirmOffset, testAsyncLearnerBrokerRole, testOptionAllAckInSyncStateSet, testChangeRoleManyTimes, testAddBroker, testTruncateEpochLogAndAddBroker, testTruncateEpochLogAndChangeMaster, testAddBrokerAndSyncFromLastFile, testCheckSynchronizingSyncStateSetFlag, testBuildConsumeQueueNotExceedConfirmOffset; ha/autoswitch/EpochFileCacheTest (5.3.3) testInitFromFile, testTruncate, testFindEpochEntryByOffset, testFindConsistentPointSample1, testFindConsistentPointSample2, testFindConsistentPointSample3, testFindConsistentPointSample4: epochs and controller of RocketMQ 5: such directories are refused (ErrUnsupported)
//   - kv/CompactionLogTest (5.3.3) testCheck, testCheckWithException, testCompaction, testReplaceFiles; kv/CompactionPositionMgrTest (5.3.3) testGetAndSet, testLoadAndPersist; kv/OffsetMapTest (5.3.3) testPutAndGet, testFull; queue/SparseConsumeQueueTest (5.3.3) testLoad, testSearch, testCreateFile: topics that are compacted by key (RocketMQ 5): not offered
//   - pop/AckMsgTest (5.3.3) testSerializeAndDeSerialize; pop/BatchAckMsgTest (5.3.3) testSerializeAndDeSerialize: receipts of RocketMQ 5's pop consumption: a broker's
//   - queue/BatchConsumeMessageTest (5.3.3) testSendMessagesToCqTopic, testSendMessagesToBcqTopic, testConsumeBatchMessage, testNextBeginOffsetConsumeBatchMessage, testGetOffsetInQueueByTime, testDispatchNormalConsumeQueue, testDispatchBuildBatchConsumeQueue, testGetBatchMessageWithinNumber, testGetBatchMessageWithinSize, testEstimateMessageCountInEmptyConsumeQueue, testEstimateMessageCount, testEstimateMessageCountSample; queue/BatchConsumeQueueTest (5.3.3) testBuildAndIterateBatchConsumeQueue, testBuildAndSearchBatchConsumeQueue, testBuildAndRecoverBatchConsumeQueue, testTruncateBatchConsumeQueue, testTruncateAndDeleteBatchConsumeQueue; queue/ConsumeQueueStoreTest (5.3.3) testLoadConsumeQueuesWithWrongAttribute, testLoadBatchConsumeQueuesWithWrongAttribute: queues of whole batches (RocketMQ 5): such directories are refused (ErrUnsupported)
//   - queue/ConsumeQueueTest (5.3.3) testEstimateMessageCountInEmptyConsumeQueue, testEstimateRocksdbMessageCountInEmptyConsumeQueue, testEstimateRocksdbMessageCount, testEstimateMessageCount, testEstimateRocksdbMessageCountSample, testEstimateMessageCountSample: an estimate of how many messages a filter lets through (RocketMQ 5): not offered
//   - timer/TimerCheckPointTest (5.3.3) testCheckPoint, testNewCheckPoint, testEncodeDecode, testNewEncodeDecode; timer/TimerLogTest (5.3.3) testAppendRollSelectDelete, testRecovery; timer/TimerMessageStoreTest (5.3.3) testPutTimerMessage, testRetryUntilSuccess, testTimerFlowControl, testPutExpiredTimerMessage, testDeleteTimerMessage, testDeleteTimerMessage_ukCollision, testPutDeleteTimerMessage, testStateAndRecover, testMaxDelaySec, testRollMessage; timer/TimerMetricsTest (5.3.3) testTimingCount, testTimingDistribution; timer/TimerWheelTest (5.3.3) testPutGet, testGetNum, testCheckPhyPos, testPutRevise, testRecoveryData, testRecoveryFixedTTL: messages of any delay (RocketMQ 5's timer wheel): not offered
package conformance
