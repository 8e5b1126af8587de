"""Options of Apache 4.9.7 and 5.5.0 that a broker does not obey.

`UNSUPPORTED` are refused where they request a feature that is missing; `HARMLESS` have no effect,
and are listed in one warning.
"""

from typing import Final

from roquet.settings.options import (
    Unsupported,
    is_false,
    is_given,
    is_more_than_one,
    is_other_than,
    parse_boolean,
)

_MIGRATED: Final = (
    "set it to false, and aclEnable=true: accounts of plain_acl.yml are obeyed beside users"
)
_OWN_CLASS: Final = "remove it; users and policies are in a file, see docs/security.md"
_FAILOVER_REMEDY: Final = (
    "remove it; failover is configured with replication.etcd, see docs/replication.md"
)
_ACKNOWLEDGE: Final = (
    "remove it; replication.acknowledge decides how many replicas confirm: async, one or quorum"
)
_NAMED: Final = "set it to false, and list the servers in namesrvAddr"
_PAGE: Final = "set it to false, and use namesrvAddr=http://host:8080/rocketmq/nsaddr"
_ROCKSDB: Final = "its messages would not be read: let Apache consume them, then remove it"
_NO_LIGHT_QUEUES: Final = "set it to false, and use topics"


def _is_foreign_class(text: str) -> bool:
    """Apache's own classes do what is done here."""
    return bool(text.strip()) and not text.strip().startswith("org.apache.rocketmq.auth.")


_CLASS: Final = Unsupported(_is_foreign_class, "access control by a class of one's own", _OWN_CLASS)
_REPLICAS: Final = Unsupported(is_more_than_one, "replicas on several brokers", _ACKNOWLEDGE)
_FAILOVER: Final = Unsupported(parse_boolean, "failover to another broker", _FAILOVER_REMEDY)
_IN_ROCKSDB: Final = Unsupported(parse_boolean, "messages in a RocksDB database", _ROCKSDB)

UNSUPPORTED: Final = {
    # Access control and consumers.
    "authenticationMetadataProvider": _CLASS,
    "authenticationProvider": _CLASS,
    "authenticationStrategy": _CLASS,
    "authorizationMetadataProvider": _CLASS,
    "authorizationProvider": _CLASS,
    "authorizationStrategy": _CLASS,
    "migrateAuthFromV1Enabled": Unsupported(
        parse_boolean, "converting accounts of 4.x into users", _MIGRATED
    ),
    "rejectPullConsumerEnable": Unsupported(
        parse_boolean, "refusing pull consumers", "set it to false"
    ),
    "litePullMessageEnable": Unsupported(
        is_false, "refusing lite pull consumers", "set it to true"
    ),
    "popConsumerKVServiceEnable": Unsupported(
        parse_boolean,
        "popped messages in a RocksDB database",
        "have Apache's broker write them to its log, by mqadmin's request POP_ROLLBACK, then set"
        " it to false",
    ),
    # Replicas.
    "inSyncReplicas": _REPLICAS,
    "minInSyncReplicas": _REPLICAS,
    "totalReplicas": _REPLICAS,
    "allAckInSyncStateSet": Unsupported(parse_boolean, "waiting for all replicas", _ACKNOWLEDGE),
    "duplicationEnable": Unsupported(parse_boolean, "two masters with one log", _FAILOVER_REMEDY),
    "asyncLearner": Unsupported(parse_boolean, "a learner replica", _ACKNOWLEDGE),
    "enableDLegerCommitLog": _FAILOVER,
    "enableControllerMode": _FAILOVER,
    "enableSlaveActingMaster": _FAILOVER,
    "enableRemoteEscape": _FAILOVER,
    # Name server discovery.
    "fetchNamesrvAddrByAddressServer": Unsupported(
        parse_boolean, "an address server at a default URL", _PAGE
    ),
    "fetchNameSrvAddrByDnsLookup": Unsupported(
        parse_boolean, "finding name servers by DNS", _NAMED
    ),
    # Storage: messages and offsets elsewhere would be missing.
    "storeType": Unsupported(
        is_other_than("", "default"), "queues in a RocksDB database", _ROCKSDB
    ),
    "configManagerVersion": Unsupported(
        is_other_than("", "v1"), "topics and offsets in a RocksDB database", _ROCKSDB
    ),
    "timerRocksDBEnable": _IN_ROCKSDB,
    "transRocksDBEnable": _IN_ROCKSDB,
    "messageStorePlugIn": Unsupported(
        is_given, "a store plug-in", "remove it; messages are stored on local disks"
    ),
    "readOnlyCommitLogStorePaths": Unsupported(
        is_given,
        "several commit log directories",
        "move their files into the directory of storePathCommitLog, and remove it",
    ),
    "enableConsumeQueueExt": Unsupported(
        parse_boolean,
        "queue entries that point into a second file",
        "set it to false, and rebuild the queues with `roquet store repair`",
    ),
    "enableLmq": Unsupported(parse_boolean, "light message queues", _NO_LIGHT_QUEUES),
    "enableMultiDispatch": Unsupported(parse_boolean, "light message queues", _NO_LIGHT_QUEUES),
    # Emergency switches.
    "timerStopEnqueue": Unsupported(parse_boolean, "refusing timed messages", "set it to false"),
    "timerStopDequeue": Unsupported(parse_boolean, "pausing timed messages", "set it to false"),
}

# Tools may set these at run time, too.
THREADS: Final = "threads, queues and buffers, of which there are none here"

_KEYS: Final = {
    THREADS: """
        ackMessageThreadPoolNums ackThreadPoolQueueCapacity adminBrokerThreadPoolNums
        adminBrokerThreadPoolQueueCapacity asyncSendEnable
        batchDispatchRequestThreadPoolNums clientAsyncSemaphoreValue
        clientCallbackExecutorThreads clientManageThreadPoolNums
        clientManagerThreadPoolQueueCapacity clientOnewaySemaphoreValue
        clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize
        clientWorkerThreads commitCommitLogLeastPages commitCommitLogThoroughInterval
        commitIntervalCommitLog compactionThreadNum consumerManageThreadPoolNums
        consumerManagerThreadPoolQueueCapacity disableCallbackExecutor
        disableNettyWorkerGroup dispatchCqThreads dispatchFromSenderThread
        endTransactionPoolQueueCapacity endTransactionThreadPoolNums
        fastFailIfNoBufferInStorePool flushLeastPagesWhenWarmMapedFile
        heartbeatThreadPoolNums heartbeatThreadPoolQueueCapacity
        litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity
        loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity
        maxAsyncPutMessageRequests osPageCacheBusyTimeOutMills
        processReplyMessageThreadPoolNums pullMessageThreadPoolNums
        pullThreadPoolQueueCapacity putConsumeQueueDataByFileChannel
        putMessageFutureThreadPoolNums putThreadPoolQueueCapacity queryMessageThreadPoolNums
        queryThreadPoolQueueCapacity readUnCommitted recoverThreadPoolNums
        replyThreadPoolQueueCapacity sendMessageThreadPoolNums sendThreadPoolQueueCapacity
        serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
        serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads
        serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize
        serverWorkerThreads sharedByteBufferNum spinLockCollisionRetreatOptimalDegree
        timerGetMessageThreadNum timerPutMessageThreadNum timerReputServiceQueueCapacity
        topicQueueLockNum transactionCheckRocksdbCoreThreads
        transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity
        transferMsgByHeap transientStorePoolEnable transientStorePoolSize useABSLock
        useEpollNativeSelector useReentrantLockWhenPutMessage waitTimeMillsInAckQueue
        waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue
        waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue
        waitTimeMillsInTransactionQueue wakeCommitWhenPutMessage wakeFlushWhenPutMessage
        warmMapedFileEnable writeBufferHighWaterMark writeBufferLowWaterMark
        writeWithoutMmap
    """,
    "caches and the database of users, which are in a file here": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath
        clusterName configName
        statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum
        userCacheExpiredSecond userCacheMaxNum userCacheRefreshSecond
    """,
    "details of RocksDB, which is refused as a whole": """
        bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin
        combineAssignOffsetCQType combineCQEnableCheckSelf combineCQLoadingCQTypes
        combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType
        combineCQUseRocksdbForLmq enableRocksDBLog indexRocksDBEnable
        iteratorWhenUseRocksdbConsumeQueue maxRocksDBIndexQueryDays memTableFlushIntervalMs
        realTimePersistRocksDBConfig rocksdbCQDoubleWriteEnable rocksdbCompressionType
        rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold statRocksDBCQIntervalSec
        timerRocksDBPrecisionMs timerRocksDBRollIntervalHours timerRocksDBRollMaxTps
        timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps
        useSeparateStorePathForRocksdbCQ useSingleRocksDBForAllConfigs
    """,
    "details of a tiered store, which is refused as a whole": """
        commitLogRollingInterval commitLogRollingMinimumSize dataReadAheadEnable
        objectStoreAccessKey objectStoreBucket objectStoreEndpoint objectStoreSecretKey
        readAheadCacheEnable readAheadCacheExpireDuration readAheadCacheSizeThresholdRate
        readAheadMessageCountThreshold readAheadMessageSizeThreshold recordGetMessageResult
        tieredBackendServiceProvider tieredMetadataServiceProvider tieredStorageLevel
        tieredStoreCommitLogMaxSize tieredStoreConsumeQueueMaxSize tieredStoreCrcCheckEnable
        tieredStoreDeleteFileEnable tieredStoreDeleteFileInterval tieredStoreFilePath
        tieredStoreFileReservedTime tieredStoreGroupCommit tieredStoreGroupCommitCount
        tieredStoreGroupCommitSize tieredStoreGroupCommitTimeout
        tieredStoreIndexFileMaxHashSlotNum tieredStoreIndexFileMaxIndexNum
        tieredStoreMaxGroupCommitCount tieredStoreMaxPendingLimit
    """,
    "how Apache matches what was popped with its acks; ours are matched as they come": """
        appendAckAsync appendCkAsync enablePopBatchAck enablePopBufferMerge
        enableSkipLongAwaitingAck popCkMaxBufferSize popCkOffsetMaxQueueSize
        popCkStayBufferTime popCkStayBufferTimeOut popConsumerFSServiceInit
        popReviveConcurrency popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead
        reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum reviveScanTime
        skipWhenCKRePutReachMaxTimes
    """,
    "details of popping that ours does in its own way": """
        clearRetryTopicWhenDeleteTopic enableNotifyAfterPopOrderLockRelease
        enableNotifyBeforePopCalculateLag enablePopLog enablePopMetrics
        maxMessageFilterNumForNotification popFromRetryProbabilityForPriority
        popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds popPollingMapSize
        recheckReputOffsetFromCq useMessageFilterForNotification useSeparateRetryQueue
        useServerSideResetOffset
    """,
    "messages pushed by brokers, and popping from light queues or with RocksDB": """
        enableBatchPush enableLitePopLog isEnableBatchPush popConsumerKVServiceInit
        popConsumerKVServiceLog
    """,
    "light queues, which are refused as a whole": """
        enableLiteEventMode enableLmqQuota enableLmqStats liteEventCheckInterval
        liteEventFullDispatchDelayTime liteEventFullDispatchDelayTimeForWildcardGroup
        liteLagCountMetricsEnable liteLagLatencyCollectEnable liteLagLatencyMetricsEnable
        liteLagLatencyTopK liteSubscriptionCheckInterval liteSubscriptionCheckTimeoutMills
        liteTtlCheckInterval maxClientEventCount maxLiteSubscriptionCount
        maxLmqConsumeQueueNum minLiteTTl
    """,
    "details of failover and of replication in 5.x, which are refused as a whole": """
        brokerElectionPriority brokerHeartbeatInterval brokerNotActiveTimeoutMillis
        channelNotActiveInterval checkSyncStateSetPeriod cleanOfflineBrokerInterval
        controllerAddr controllerHeartBeatTimeoutMills dLegerGroup dLegerPeers dLegerSelfId
        enableAutoInSyncReplicas fetchControllerAddrByDnsLookup forwardTimeout
        haFlowControlEnable haMaxTimeSlaveNotCatchup isBrokerContainer isInBrokerContainer
        lockInStrictMode maxHaTransferByteInSecond maxSlaveResendLength
        preferredLeaderId replicasPerDiskPartition sendHeartbeatTimeoutMillis skipPreOnline
        storePathBrokerIdentity storePathDLedgerCommitLog
        storePathEpochFile syncBrokerMemberGroupPeriod syncBrokerMetadataPeriod
        syncControllerMetadataPeriod syncFromLastFile syncMasterFlushOffsetWhenStartup
    """,
    "how a timer wheel works; there is none, and timed messages are served": """
        allowRecallWhenBrokerNotWriteable appendTopicForTimerDeleteKey
        enableScheduleAsyncDeliver mappedFileSizeTimerLog
        scheduleAsyncDeliverMaxPendingLimit scheduleAsyncDeliverMaxResendNum2Blocked
        timerCheckMetricsWhen timerColdDataCheckIntervalMs timerCongestNumEachSlot
        timerEnableCheckMetrics timerEnableDisruptor timerEnableRetryUntilSuccess
        timerFlushIntervalMs timerInterceptDelayLevel timerMaxDelaySec
        timerMetricSmallThreshold timerPrecisionMs timerProgressLogIntervalMs
        timerRecallToTimeWheelEnable timerRecallToTimelineEnable
        timerReputServiceCorePoolSize timerReputServiceMaxPoolSize timerRollWindowSlot
        timerSkipUnknownError timerWarmEnable timerWheelEnable timerWheelSnapshotFlush
        timerWheelSnapshotIntervalMs
    """,
    "statistics and metrics in other forms than ours": """
        accountStatsEnable accountStatsPrintZeroValues autoDeleteUnusedStats
        commercialBaseCount commercialBigCount commercialEnable commercialSizePerMsg
        commercialTimerCount commercialTransCount diskFallRecorded enableConnectionMetrics
        enableDetailStat enableLagAndDlqMetrics enableMessageStoreMetrics
        enableRemotingMetrics enableRequestMetrics enableScheduleMessageStats
        enableStatsMetrics enableTransactionMetrics estimateAccumulation
        maxStatsIdleTimeInMinutes metricGrpcExporterIntervalInMills
        metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
        metricsExportBatchMaxDataPoints metricsExporterType metricsGrpcExporterHeader
        metricsGrpcExporterTarget metricsInDelta metricsLabel metricsOtelCardinalityLimit
        metricsPromExporterHost metricsPromExporterPort printChannelGroups
        printChannelGroupsMinNum transactionMetricFlushInterval
    """,
    "how a broker calls other servers": """
        clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout connectTimeoutMillis
        enableReconnectForGoAway fetchNamesrvAddrInterval isScanAvailableNameSrv
        loadBalancePollNameServerInterval maxReconnectIntervalTimeSeconds
        scanAvailableNameSrv socksProxyConfig updateNameServerAddrPeriod
    """,
    "how files are held, read ahead, checked and removed; here they always are checked": """
        accessMessageInMemoryHotRatio bitMapLengthConsumeQueueExt cgColdReadThreshold
        checkCRCOnRecover checkCommitLogOffsetOnRecover cleanResourceInterval
        cleanSwapedMapInterval coldCtrStrategyEnable coldDataFlowControlEnable
        coldDataScanEnable commitLogForceSwapMapInterval commitLogRecoverMaxNum
        commitLogSwapMapInterval commitLogSwapMapReserveFileNum compactionCqMappedFileSize
        compactionMappedFileSize compactionScheduleInternal
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval
        debugLockEnable deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval
        deleteFileBatchMax destroyMapedFileIntervalForcibly dispatchCqCacheNum
        enableAcceleratedRecovery enableAsyncReput enableBuildConsumeQueueConcurrently
        enableCleanExpiredOffset enableCompaction
        enableLogConsumeQueueRepeatedlyBuildWhenRecover filterDataCleanTimeSpan
        flushCommitLogTimed flushConsumeQueueLeastPages flushIntervalConsumeQueue
        forceVerifyPropCRC globalColdReadThreshold indexFileReadEnable indexFileWriteEnable
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval
        logicQueueSwapMapReserveFileNum logicalDiskSpaceCleanForciblyThreshold
        mappedFileSizeConsumeQueueExt mappedFileSwapEnable mapperFileSizeBatchConsumeQueue
        maxBatchDeleteFilesNum maxChecksumRange maxConsumeQueueScan maxOffsetMapSize
        maxRecoveryCommitlogFiles messageIndexSafe putMessageTimeout putMsgIndexHightWater
        recoverConcurrently redeleteHangedFileInterval searchBcqByCacheEnable
        travelCqFileNumWhenGetMessage usePIDColdCtrStrategy
    """,
    "all the rest": """
        autoMessageVersionOnTopicLen broadcastOffsetExpireMaxSecond
        broadcastOffsetExpireSecond brokerConfigPath channelExpiredTimeout
        compatibleWithOldNameSrv compressedRegister
        consumerOffsetUpdateVersionStep defaultQueryMaxNum delayOffsetUpdateVersionStep
        disappearTimeAfterStart
        enableBroadcastOffsetStore enableCalcFilterBitMap enableCreateSysGroup
        enableFastChannelEventProcess enableMixedMessageType enableNetWorkFlowControl
        enableRegisterProducer enableRunningFlagsInFlush enableShutdownGracefully
        enableSingleTopicRegister enableSplitMetadata enableSplitRegistration
        expectConsumerNumUseFilter filterServerNums flushConsumerOffsetHistoryInterval
        forceRegister highSpeedMode isolateLogEnable maxDelayTime maxErrorRateOfBloomFilter
        maxFilterMessageSize maxTopicLength persistConsumerOffsetIncrementally
        priorityOrderAsc pullBatchMaxMessageCount realTimeNotifyConsumerChange
        sampleCountThreshold sampleSteps shutdownWaitTimeSeconds
        splitMetadataSize splitRegistrationSize subscriptionExpiredTimeout
        transWriteOriginTransHalfEnable transactionOpBatchInterval transactionOpMsgMaxSize
        useStaticSubscription validateSystemTopicWhenUpdateTopic
    """,
}

# Each key with the reason why it may be skipped.
HARMLESS: Final = {key: reason for reason, keys in _KEYS.items() for key in keys.split()}
