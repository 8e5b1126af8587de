"""The configuration of a broker under Apache's names: in files, in requests, at run time.

Declares the options that are obeyed, and which of them may be changed while the broker runs;
`not_obeyed` has those that are refused or skipped. `TREATMENTS` is all of it, for every key of
Apache. What is not changeable cannot be set by a request: no path, no address, no secret.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from roquet.broker.errors import NotChangeable
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings import kinds as kind
from roquet.broker.settings.config import BrokerConfig, BrokerRole, check_replication
from roquet.broker.settings.not_obeyed import HARMLESS, THREADS, UNSUPPORTED
from roquet.net.tls.settings import TLS_KEYS, read_tls
from roquet.protocol.bodies.pop import MessageRequestMode
from roquet.settings.changes import LogLevel
from roquet.settings.options import (
    BOOLEAN,
    COUNT,
    FILE,
    INTERVAL_MS,
    NAMES,
    PERCENT,
    STRICT_BOOLEAN,
    TEXT,
    ConfigError,
    Option,
    by_name,
    format_options,
    number,
    number_within,
    one_of,
    parse_options,
    refuse_unsupported,
    unclear_booleans,
)
from roquet.store.config import FlushMode, StoreConfig


class ReadBrokerConfig(NamedTuple):
    config: BrokerConfig
    ignored: list[str]


def read_config(settings: Mapping[str, str], root: Path) -> ReadBrokerConfig:
    """Obeys the options we know and lists the others; `root` is where the store is by default.

    Raises ConfigError and UnsupportedOption.
    """
    tls, settings = read_tls(settings)
    refuse_unsupported(UNSUPPORTED, settings)
    known = {_ALIASES.get(key, key): text for key, text in settings.items()}
    store = StoreConfig(**{"root": root} | parse_options(_STORE, known))
    config = BrokerConfig(store=store, tls=tls, **parse_options(_BROKER, known))
    config = replace(config, replica_id=config.broker_id)
    check_replication(config)
    if not config.is_slave:
        # Apache's masters have id 0, whatever is in their file.
        config = replace(config, broker_id=0)
    elif config.broker_id == 0:
        raise ConfigError("brokerId", "0", "expected a number above 0 with brokerRole=SLAVE")
    return ReadBrokerConfig(config, [key for key in known if key not in _OPTIONS])


def change_config(config: BrokerConfig, settings: Mapping[str, str]) -> BrokerConfig:
    """All of `settings` or, with an error, nothing. Raises NotChangeable and ConfigError."""
    for key in settings:
        if key in config.locked_settings or not (key in CHANGEABLE or _may_be_set(key)):
            raise NotChangeable(key)
    # In a file such a value means the same as to Apache; a request can be refused.
    for key in doubtful_booleans(settings):
        raise ConfigError(key, settings[key], f"expected {BOOLEAN.expected}")
    store = replace(config.store, **parse_options(_STORE, settings))
    return replace(config, store=store, **parse_options(_BROKER, settings))


def without_effect(settings: Mapping[str, str]) -> list[str]:
    """Which of the options may be changed, but have no effect."""
    return [key for key in settings if key not in CHANGEABLE]


def doubtful_booleans(settings: Mapping[str, str]) -> list[str]:
    """Options that are read as false, as in Java, although their text is not "false"."""
    return unclear_booleans(_OPTIONS, settings)


def changeable_texts(config: BrokerConfig) -> dict[str, str]:
    """Every option that may be changed while the broker runs."""
    return {key: text for key, text in config_texts(config).items() if key in CHANGEABLE}


def config_texts(config: BrokerConfig) -> dict[str, str]:
    """Every option that is obeyed."""
    advertised_host = config.advertised_host or config.bind_host
    return (
        format_options(_BROKER, config)
        | format_options(_STORE, config.store)
        | {
            "bindAddress": config.bind_host,
            "brokerIP1": advertised_host,
            "brokerIP2": config.ha_advertised_host or advertised_host,
            "haListenPort": str(config.ha_port),
            "storePathCommitLog": str(config.store.layout.commit_log),
            "useTLS": str(config.tls.encrypt_calls).lower(),
        }
    )


class Treatment(Enum):
    """What happens to an option."""

    CHANGEABLE = "obeyed, and may be changed while the broker runs"
    OBEYED = "obeyed from the start"
    REFUSED = "refused where it requests an unsupported feature"
    HARMLESS = "skipped, and listed in a warning"


def _may_be_set(key: str) -> bool:
    """Tools may set the sizes of thread pools, which have no effect here."""
    return HARMLESS.get(key) is THREADS


_BROKER: Final = by_name(
    Option("brokerClusterName", TEXT, "cluster_name"),
    Option("brokerName", TEXT, "broker_name"),
    Option("brokerId", number(0), "broker_id"),
    Option("brokerRole", one_of(BrokerRole), "role"),
    Option("brokerPermission", number(0, 7), "permission", is_changeable=True),
    Option("regionId", TEXT, "region_id"),
    Option("traceOn", BOOLEAN, "trace_on"),
    Option("bindAddress", kind.HOST, "bind_address"),
    Option("brokerIP1", kind.REACHABLE_HOST, "advertised_host"),
    Option("brokerIP2", kind.REACHABLE_HOST, "ha_advertised_host"),
    Option("listenPort", kind.PORT, "listen_port"),
    Option("serverChannelMaxIdleTimeSeconds", number(1), "idle_timeout_s"),
    Option("maxConnections", COUNT, "connection_count_max"),
    Option("maxConnectionsPerAddress", COUNT, "connection_count_max_per_address"),
    Option("maxAcceptsPerSecond", COUNT, "accept_rate_max"),
    Option("maxHeldBytes", number(1, 2**63 - 1), "held_size_max"),
    Option("maxRequestsPerConnection", COUNT, "deferred_count_max"),
    Option("maxWaitingRequests", COUNT, "all_deferred_count_max"),
    Option("httpListen", kind.PLACE, "http_place"),
    Option("grpcPort", kind.PORT, "grpc_port"),
    Option("grpcSignatureMaxAgeSeconds", number(0), "grpc_signature_age_s_max"),
    Option("logLevel", one_of(LogLevel), "log_level", is_changeable=True),
    Option("aclEnable", STRICT_BOOLEAN, "access_control"),
    Option("aclFile", FILE, "accounts_file"),
    Option("rocketmqHome", kind.DIRECTORY, "home"),
    Option("authenticationEnabled", STRICT_BOOLEAN, "authentication"),
    Option("authorizationEnabled", STRICT_BOOLEAN, "authorization"),
    Option("usersFile", FILE, "users_file"),
    Option("initAuthenticationUser", kind.FIRST_USER, "first_user"),
    Option("authenticationWhitelist", kind.CODES, "unauthenticated_codes"),
    Option("authorizationWhitelist", kind.CODES, "unauthorized_codes"),
    Option("aclAdminRequiresTls", STRICT_BOOLEAN, "admin_requires_tls"),
    Option("innerClientAuthenticationCredentials", kind.OWN_ACCOUNT, "own_account"),
    Option("namesrvAddr", kind.ADDRESSES, "name_servers"),
    Option(
        "registerNameServerPeriod",
        number_within(10_000, 60_000),
        "register_interval_ms",
        is_changeable=True,
    ),
    Option("configBlackList", NAMES, "locked_settings"),
    Option("syncFlushTimeout", INTERVAL_MS, "sync_timeout_ms"),
    Option("registerBrokerTimeoutMills", INTERVAL_MS, "register_timeout_ms", is_changeable=True),
    Option("haListenPort", kind.PORT, "ha_listen_port"),
    Option("haMasterAddress", kind.ADDRESS, "ha_master_address"),
    Option("haSendHeartbeatInterval", INTERVAL_MS, "ha_heartbeat_interval_ms"),
    Option("haHousekeepingInterval", INTERVAL_MS, "ha_silence_ms_max"),
    Option("haTransferBatchSize", COUNT, "ha_frame_size_max"),
    Option("haSlaveFallbehindMax", COUNT, "ha_lag_size_max"),
    Option("slaveTimeout", INTERVAL_MS, "slave_timeout_ms"),
    Option("slaveReadEnable", BOOLEAN, "slaves_are_read", is_changeable=True),
    Option("offsetCheckInSlave", BOOLEAN, "slave_checks_offsets"),
    Option("replication.secretFile", FILE, "replication_secret_file"),
    Option("replication.plainSlaves", STRICT_BOOLEAN, "takes_plain_slaves"),
    Option("replication.acknowledge", one_of(AckPolicy), "ack_policy"),
    Option("replication.copies", number(1, 64), "replica_count"),
    Option("replication.lagSeconds", number(1, 3600), "lag_s_max"),
    Option("replication.etcd", kind.ETCD_SERVERS, "etcd"),
    Option("replication.etcdTrustCertPath", FILE, "etcd_trusted"),
    Option("replication.etcdCertPath", FILE, "etcd_certificate"),
    Option("replication.etcdKeyPath", FILE, "etcd_key"),
    Option("replication.leaseSeconds", number(2, 600), "lease_s"),
    Option("autoCreateTopicEnable", BOOLEAN, "create_topics", is_changeable=True),
    Option("autoCreateSubscriptionGroup", BOOLEAN, "create_groups", is_changeable=True),
    Option("autoCreateTopicMax", COUNT, "created_topic_count_max", is_changeable=True),
    Option("autoCreateGroupMax", COUNT, "created_group_count_max", is_changeable=True),
    Option("maxQueueLocks", COUNT, "lock_count_max"),
    Option("maxConsumerOffsets", COUNT, "offset_count_max"),
    Option("maxMemberships", COUNT, "membership_count_max"),
    Option("maxSubscriptionBytes", number(1, 2**63 - 1), "subscription_size_max"),
    Option("defaultTopicQueueNums", number(1, 1024), "template_queue_count"),
    Option("clusterTopicEnable", BOOLEAN, "open_cluster_topic"),
    Option("brokerTopicEnable", BOOLEAN, "open_broker_topic"),
    Option("traceTopicEnable", BOOLEAN, "make_trace_topic"),
    Option("msgTraceTopicName", kind.TOPIC, "trace_topic"),
    Option(
        "startAcceptSendRequestTimeStamp",
        number(0, 2**63 - 1),
        "accept_sends_from_ms",
        is_changeable=True,
    ),
    Option("rejectTransactionMessage", BOOLEAN, "refuse_transactions", is_changeable=True),
    Option("storeReplyMessageEnable", BOOLEAN, "store_replies", is_changeable=True),
    Option("waitTimeMillsInSendQueue", number(0), "send_wait_ms_max"),
    Option("brokerFastFailureEnable", BOOLEAN, "refuse_late_sends"),
    Option(
        "disableConsumeIfConsumerReadSlowly", BOOLEAN, "disable_slow_groups", is_changeable=True
    ),
    Option(
        "consumerFallbehindThreshold", number(0, 2**63 - 1), "slow_group_size", is_changeable=True
    ),
    Option("longPollingEnable", BOOLEAN, "long_polling", is_changeable=True),
    Option("shortPollingTimeMills", INTERVAL_MS, "short_polling_ms", is_changeable=True),
    Option("maxTransferBytesOnBulkPull", COUNT, "bulk_pull_size_max", is_changeable=True),
    Option("defaultMessageRequestMode", one_of(MessageRequestMode), "request_mode"),
    Option("serverLoadBalancerEnable", BOOLEAN, "share_out_queues"),
    Option("defaultPopShareQueueNum", number(-1, 2**31 - 1), "pop_share_count"),
    Option("popPollingSize", COUNT, "pop_poll_count_max"),
    Option("maxPopPollingSize", COUNT, "all_pop_poll_count_max"),
    Option("popFromRetryProbability", number(0, 100), "pop_retry_percent"),
    Option("enableRetryTopicV2", BOOLEAN, "pop_retries_v2"),
    Option("retrieveMessageFromPopRetryTopicV1", BOOLEAN, "pop_reads_retries_v1"),
    Option("initPopOffsetByCheckMsgInMem", BOOLEAN, "pop_young_topics_from_start"),
    Option("popResponseReturnActualRetryTopic", BOOLEAN, "show_retry_topics"),
    Option("popReviveSkipIfGroupAbsent", BOOLEAN, "drop_pops_of_lost_groups"),
    Option("enablePopMessageThreshold", BOOLEAN, "limit_in_flight"),
    Option("popInflightMessageThreshold", COUNT, "in_flight_count_max"),
    Option("enablePropertyFilter", BOOLEAN, "sql_filters", is_changeable=True),
    Option("filterSupportRetry", BOOLEAN, "sql_filters_for_retries", is_changeable=True),
    Option("notifyConsumerIdsChangedEnable", BOOLEAN, "notify_consumers", is_changeable=True),
    Option(
        "flushConsumerOffsetInterval", INTERVAL_MS, "save_offsets_interval_ms", is_changeable=True
    ),
    Option("transactionTimeOut", INTERVAL_MS, "transaction_timeout_ms", is_changeable=True),
    Option("transactionCheckMax", COUNT, "transaction_check_count_max", is_changeable=True),
    Option(
        "transactionCheckInterval", INTERVAL_MS, "transaction_check_interval_ms", is_changeable=True
    ),
    Option("flushDelayOffsetInterval", INTERVAL_MS, "save_delays_interval_ms", is_changeable=True),
    Option("recallMessageEnable", BOOLEAN, "recalls", is_changeable=True),
)

_STORE: Final = by_name(
    Option("storePathRootDir", kind.DIRECTORY, "root"),
    Option("storePathCommitLog", kind.DIRECTORY, "commit_log_directory"),
    Option("mappedFileSizeCommitLog", number(4096), "commit_log_file_size"),
    Option("mappedFileSizeConsumeQueue", kind.QUEUE_FILE_SIZE, "queue_file_size"),
    Option("maxHashSlotNum", COUNT, "index_slot_count"),
    Option("maxIndexNum", COUNT, "index_entry_count"),
    Option("messageIndexEnable", BOOLEAN, "index_keys"),
    Option("maxMessageSize", COUNT, "body_size_max"),
    Option("enabledAppendPropCRC", BOOLEAN, "write_checksums"),
    Option("checkCRCOnRead", BOOLEAN, "check_reads", is_changeable=True),
    Option("messageDelayLevel", kind.DELAYS, "delay_levels_ms"),
    Option("flushDiskType", one_of(FlushMode), "flush_mode"),
    Option("flushIntervalCommitLog", INTERVAL_MS, "flush_interval_ms"),
    Option("flushCommitLogLeastPages", number(0), "flush_pages_min"),
    Option("flushCommitLogThoroughInterval", INTERVAL_MS, "flush_all_interval_ms"),
    Option("flushConsumeQueueThoroughInterval", INTERVAL_MS, "queue_flush_interval_ms"),
    Option(
        "maxTransferCountOnMessageInMemory", COUNT, "read_count_max_in_memory", is_changeable=True
    ),
    Option(
        "maxTransferBytesOnMessageInMemory", COUNT, "read_size_max_in_memory", is_changeable=True
    ),
    Option("maxTransferCountOnMessageInDisk", COUNT, "read_count_max_on_disk", is_changeable=True),
    Option("maxTransferBytesOnMessageInDisk", COUNT, "read_size_max_on_disk", is_changeable=True),
    Option("accessMessageInMemoryMaxRatio", PERCENT, "memory_percent", is_changeable=True),
    Option("maxMsgsNumBatch", COUNT, "query_count_max"),
    Option("fileReservedTime", COUNT, "reserved_hours", is_changeable=True),
    Option("deleteWhen", kind.HOURS, "delete_hours", is_changeable=True),
    Option("diskMaxUsedSpaceRatio", PERCENT, "disk_used_percent_max", is_changeable=True),
    Option("diskSpaceCleanForciblyRatio", PERCENT, "disk_clean_percent"),
    Option("diskSpaceWarningLevelRatio", PERCENT, "disk_full_percent"),
    Option("cleanFileForciblyEnable", BOOLEAN, "clean_by_force", is_changeable=True),
)

# How releases before 4.5 spelled it, which Apache ignores now, and what 5.x calls it.
_ALIASES: Final = {
    "haMaxGapNotInSync": "haSlaveFallbehindMax",
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
}

_OPTIONS: Final = _BROKER | _STORE
CHANGEABLE: Final = frozenset(name for name, each in _OPTIONS.items() if each.is_changeable)

# Attributes without an option, and those with several.
_OURS: Final = {"store", "index_tags", "memory_size", "tls", "replica_id", "is_to_found"}
assert {option.attribute for option in _OPTIONS.values()} == {
    *BrokerConfig.__struct_fields__,
    *StoreConfig.__struct_fields__,
} - _OURS
# An option in two tables is obeyed unless it requests what is unsupported.
TREATMENTS: Final[Mapping[str, Treatment]] = {
    **dict.fromkeys(HARMLESS, Treatment.HARMLESS),
    **dict.fromkeys((*_OPTIONS, *_ALIASES, *TLS_KEYS), Treatment.OBEYED),
    **dict.fromkeys(CHANGEABLE, Treatment.CHANGEABLE),
    **dict.fromkeys(UNSUPPORTED, Treatment.REFUSED),
}
