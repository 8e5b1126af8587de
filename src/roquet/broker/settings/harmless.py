"""Settings of Apache 4.9.7 and 5.5.0 that have no effect here and promise nothing by it.

A file may have them; they are named in one warning.
"""

from typing import Final

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
    "details of access control in the form of 5.x, which is refused as a whole": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath
        authenticationMetadataProvider authenticationProvider authenticationStrategy
        authenticationWhitelist authorizationMetadataProvider authorizationProvider
        authorizationStrategy authorizationWhitelist clusterName configName
        initAuthenticationUser migrateAuthFromV1Enabled
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
    "popping and messages pushed by brokers, which clients are refused": """
        appendAckAsync appendCkAsync clearRetryTopicWhenDeleteTopic
        defaultMessageRequestMode defaultPopShareQueueNum enableBatchPush enableLitePopLog
        enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag
        enablePopBatchAck enablePopBufferMerge enablePopLog enablePopMessageThreshold
        enablePopMetrics enableRetryTopicV2 enableSkipLongAwaitingAck
        initPopOffsetByCheckMsgInMem isEnableBatchPush maxMessageFilterNumForNotification
        maxPopPollingSize popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime
        popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceEnable
        popConsumerKVServiceInit popConsumerKVServiceLog popFromRetryProbability
        popFromRetryProbabilityForPriority popInflightMessageThreshold
        popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds popPollingMapSize
        popPollingSize popResponseReturnActualRetryTopic popReviveConcurrency
        popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead popReviveSkipIfGroupAbsent
        recheckReputOffsetFromCq retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs
        reviveInterval reviveMaxSlow reviveQueueNum reviveScanTime
        skipWhenCKRePutReachMaxTimes useMessageFilterForNotification useSeparateRetryQueue
        useServerSideResetOffset
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
        enableScheduleAsyncDeliver mappedFileSizeTimerLog recallMessageEnable
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
        sampleCountThreshold sampleSteps serverLoadBalancerEnable shutdownWaitTimeSeconds
        splitMetadataSize splitRegistrationSize subscriptionExpiredTimeout
        transWriteOriginTransHalfEnable transactionOpBatchInterval transactionOpMsgMaxSize
        useStaticSubscription validateSystemTopicWhenUpdateTopic
    """,
}

# Each key with the reason why it may be skipped.
HARMLESS: Final = {key: reason for reason, keys in _KEYS.items() for key in keys.split()}
