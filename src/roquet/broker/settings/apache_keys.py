"""The configuration of a broker under Apache's names: in files, on the wire, at run time.

Tables say what happens to a setting: here are those we obey, and which of them may be changed while
the broker runs; `promises` has what is refused, `harmless` what is skipped. `TREATMENTS` is all
of it, for every key of Apache. What is not changeable cannot be set by a request: no path, no
address, no secret.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from roquet.broker.errors import ConfigError, NotChangeable
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings import kinds as kind
from roquet.broker.settings.config import BrokerConfig, BrokerRole
from roquet.broker.settings.harmless import HARMLESS, THREADS
from roquet.broker.settings.kinds import SettingKind
from roquet.broker.settings.promises import PROMISES
from roquet.broker.settings.replication import check_replication
from roquet.net.tls.settings import TLS_KEYS, read_tls
from roquet.settings.log_level import LogLevel
from roquet.settings.promises import refuse_what_is_not_kept
from roquet.settings.truth import is_plain_truth
from roquet.store.config import FlushMode, StoreConfig


class ReadBrokerConfig(NamedTuple):
    config: BrokerConfig
    ignored: list[str]


def read_config(settings: Mapping[str, str], root: Path) -> ReadBrokerConfig:
    """Obeys the settings we know and names the others; `root` is where the store is by default.

    Raises ConfigError, BadTlsSetting and PromiseNotKept.
    """
    tls, settings = read_tls(settings)
    refuse_what_is_not_kept(PROMISES, settings)
    known = {_ALIASES.get(key, key): text for key, text in settings.items()}
    store = StoreConfig(**{"root": root} | _values(_STORE, known))
    config = BrokerConfig(store=store, tls=tls, **_values(_BROKER, known))
    config = replace(config, replica_id=config.broker_id)
    check_replication(config)
    if not config.is_slave:
        # Apache's masters have id 0, whatever their file says.
        config = replace(config, broker_id=0)
    elif config.broker_id == 0:
        raise ConfigError("brokerId", "0", "expected a number above 0 with brokerRole=SLAVE")
    return ReadBrokerConfig(
        config, [key for key in known if key not in _STORE and key not in _BROKER]
    )


def change_config(config: BrokerConfig, settings: Mapping[str, str]) -> BrokerConfig:
    """All of `settings` or, with an error, nothing. Raises NotChangeable and ConfigError."""
    for key in settings:
        if key in config.locked_settings or not (key in CHANGEABLE or _may_be_set(key)):
            raise NotChangeable(key)
    # A file that Apache reads means the same to us; a request can be told of its mistake.
    for key in doubtful_truths(settings):
        raise ConfigError(key, settings[key], f"expected {kind.TRUTH.expected}")
    store = replace(config.store, **_values(_STORE, settings))
    return replace(config, store=store, **_values(_BROKER, settings))


def without_effect(settings: Mapping[str, str]) -> list[str]:
    """Which of the settings may be changed, but change nothing."""
    return [key for key in settings if key not in CHANGEABLE]


def doubtful_truths(settings: Mapping[str, str]) -> list[str]:
    """Which settings are read as false, as in Java, although they do not say so."""
    return [key for key, text in settings.items() if key in _TRUTHS and not is_plain_truth(text)]


def changeable_texts(config: BrokerConfig) -> dict[str, str]:
    """Every setting that may be changed while the broker runs."""
    return {key: text for key, text in config_texts(config).items() if key in CHANGEABLE}


def config_texts(config: BrokerConfig) -> dict[str, str]:
    """Every setting that we obey."""
    advertised_host = config.advertised_host or config.bind_host
    return (
        _texts(_BROKER, config)
        | _texts(_STORE, config.store)
        | {
            "bindAddress": config.bind_host,
            "brokerIP1": advertised_host,
            "brokerIP2": config.ha_advertised_host or advertised_host,
            "haListenPort": str(config.ha_port),
            "storePathCommitLog": str(config.store.layout.commit_log),
        }
    )


class Treatment(Enum):
    """What happens to a setting."""

    CHANGEABLE = "obeyed, and may be changed while the broker runs"
    OBEYED = "obeyed from the start"
    REFUSED = "refused where it promises what we do not do"
    HARMLESS = "skipped, and named in a warning"


class _Setting(msgspec.Struct, frozen=True):
    attribute: str
    kind: SettingKind


def _may_be_set(key: str) -> bool:
    """Tools that set up threads we do not have are not refused."""
    return HARMLESS.get(key) is THREADS


def _values(table: Mapping[str, _Setting], settings: Mapping[str, str]) -> dict[str, Any]:
    return {
        setting.attribute: setting.kind.parse(key, settings[key])
        for key, setting in table.items()
        if key in settings
    }


def _texts(table: Mapping[str, _Setting], config: object) -> dict[str, str]:
    values = {key: getattr(config, setting.attribute) for key, setting in table.items()}
    return {key: table[key].kind.write(value) for key, value in values.items() if value is not None}


_BROKER: Final = {
    "brokerClusterName": _Setting("cluster_name", kind.TEXT),
    "brokerName": _Setting("broker_name", kind.TEXT),
    "brokerId": _Setting("broker_id", kind.number(0)),
    "brokerRole": _Setting("role", kind.one_of(BrokerRole)),
    "brokerPermission": _Setting("permission", kind.number(0, 7)),
    "regionId": _Setting("region_id", kind.TEXT),
    "traceOn": _Setting("trace_on", kind.TRUTH),
    "bindAddress": _Setting("bind_address", kind.HOST),
    "brokerIP1": _Setting("advertised_host", kind.REACHABLE_HOST),
    "brokerIP2": _Setting("ha_advertised_host", kind.REACHABLE_HOST),
    "listenPort": _Setting("listen_port", kind.PORT),
    "serverChannelMaxIdleTimeSeconds": _Setting("idle_timeout_s", kind.number(1)),
    "maxConnections": _Setting("connection_count_max", kind.COUNT),
    "maxConnectionsPerAddress": _Setting("connection_count_max_per_address", kind.COUNT),
    "maxAcceptsPerSecond": _Setting("accept_rate_max", kind.COUNT),
    "maxHeldBytes": _Setting("held_size_max", kind.number(1, 2**63 - 1)),
    "maxRequestsPerConnection": _Setting("deferred_count_max", kind.COUNT),
    "maxWaitingRequests": _Setting("all_deferred_count_max", kind.COUNT),
    "httpListen": _Setting("http_place", kind.PLACE),
    "logLevel": _Setting("log_level", kind.one_of(LogLevel)),
    "aclEnable": _Setting("access_control", kind.CLEAR_TRUTH),
    "aclFile": _Setting("accounts_file", kind.FILE),
    "rocketmqHome": _Setting("home", kind.DIRECTORY),
    "aclAdminRequiresTls": _Setting("admin_requires_tls", kind.CLEAR_TRUTH),
    "innerClientAuthenticationCredentials": _Setting("own_account", kind.OWN_ACCOUNT),
    "namesrvAddr": _Setting("name_servers", kind.ADDRESSES),
    "registerNameServerPeriod": _Setting(
        "register_interval_ms", kind.number_within(10_000, 60_000)
    ),
    "configBlackList": _Setting("locked_settings", kind.KEYS),
    "syncFlushTimeout": _Setting("sync_timeout_ms", kind.INTERVAL_MS),
    "registerBrokerTimeoutMills": _Setting("register_timeout_ms", kind.INTERVAL_MS),
    "haListenPort": _Setting("ha_listen_port", kind.PORT),
    "haMasterAddress": _Setting("ha_master_address", kind.ADDRESS),
    "haSendHeartbeatInterval": _Setting("ha_heartbeat_interval_ms", kind.INTERVAL_MS),
    "haHousekeepingInterval": _Setting("ha_silence_ms_max", kind.INTERVAL_MS),
    "haTransferBatchSize": _Setting("ha_frame_size_max", kind.COUNT),
    "haSlaveFallbehindMax": _Setting("ha_lag_size_max", kind.COUNT),
    "slaveTimeout": _Setting("slave_timeout_ms", kind.INTERVAL_MS),
    "slaveReadEnable": _Setting("slaves_are_read", kind.TRUTH),
    "offsetCheckInSlave": _Setting("slave_checks_offsets", kind.TRUTH),
    "replication.secretFile": _Setting("replication_secret_file", kind.FILE),
    "replication.plainSlaves": _Setting("takes_plain_slaves", kind.CLEAR_TRUTH),
    "replication.acknowledge": _Setting("ack_policy", kind.one_of(AckPolicy)),
    "replication.copies": _Setting("replica_count", kind.number(1, 64)),
    "replication.lagSeconds": _Setting("lag_s_max", kind.number(1, 3600)),
    "replication.etcd": _Setting("etcd", kind.ETCD_SERVERS),
    "replication.etcdTrustCertPath": _Setting("etcd_trusted", kind.FILE),
    "replication.etcdCertPath": _Setting("etcd_certificate", kind.FILE),
    "replication.etcdKeyPath": _Setting("etcd_key", kind.FILE),
    "replication.leaseSeconds": _Setting("lease_s", kind.number(2, 600)),
    "autoCreateTopicEnable": _Setting("create_topics", kind.TRUTH),
    "autoCreateSubscriptionGroup": _Setting("create_groups", kind.TRUTH),
    "autoCreateTopicMax": _Setting("created_topic_count_max", kind.COUNT),
    "autoCreateGroupMax": _Setting("created_group_count_max", kind.COUNT),
    "maxQueueLocks": _Setting("lock_count_max", kind.COUNT),
    "maxConsumerOffsets": _Setting("offset_count_max", kind.COUNT),
    "maxMemberships": _Setting("membership_count_max", kind.COUNT),
    "maxSubscriptionBytes": _Setting("subscription_size_max", kind.number(1, 2**63 - 1)),
    "defaultTopicQueueNums": _Setting("template_queue_count", kind.number(1, 1024)),
    "clusterTopicEnable": _Setting("open_cluster_topic", kind.TRUTH),
    "brokerTopicEnable": _Setting("open_broker_topic", kind.TRUTH),
    "traceTopicEnable": _Setting("make_trace_topic", kind.TRUTH),
    "msgTraceTopicName": _Setting("trace_topic", kind.TOPIC),
    "startAcceptSendRequestTimeStamp": _Setting("accept_sends_from_ms", kind.number(0, 2**63 - 1)),
    "rejectTransactionMessage": _Setting("refuse_transactions", kind.TRUTH),
    "storeReplyMessageEnable": _Setting("store_replies", kind.TRUTH),
    "waitTimeMillsInSendQueue": _Setting("send_wait_ms_max", kind.number(0)),
    "brokerFastFailureEnable": _Setting("refuse_late_sends", kind.TRUTH),
    "disableConsumeIfConsumerReadSlowly": _Setting("disable_slow_groups", kind.TRUTH),
    "consumerFallbehindThreshold": _Setting("slow_group_size", kind.number(0, 2**63 - 1)),
    "longPollingEnable": _Setting("long_polling", kind.TRUTH),
    "shortPollingTimeMills": _Setting("short_polling_ms", kind.INTERVAL_MS),
    "maxTransferBytesOnBulkPull": _Setting("bulk_pull_size_max", kind.COUNT),
    "enablePropertyFilter": _Setting("sql_filters", kind.TRUTH),
    "filterSupportRetry": _Setting("sql_filters_for_retries", kind.TRUTH),
    "notifyConsumerIdsChangedEnable": _Setting("notify_consumers", kind.TRUTH),
    "flushConsumerOffsetInterval": _Setting("save_offsets_interval_ms", kind.INTERVAL_MS),
    "transactionTimeOut": _Setting("transaction_timeout_ms", kind.INTERVAL_MS),
    "transactionCheckMax": _Setting("transaction_check_count_max", kind.COUNT),
    "transactionCheckInterval": _Setting("transaction_check_interval_ms", kind.INTERVAL_MS),
    "flushDelayOffsetInterval": _Setting("save_delays_interval_ms", kind.INTERVAL_MS),
}

_STORE: Final = {
    "storePathRootDir": _Setting("root", kind.DIRECTORY),
    "storePathCommitLog": _Setting("commit_log_directory", kind.DIRECTORY),
    "mappedFileSizeCommitLog": _Setting("commit_log_file_size", kind.number(4096)),
    "mappedFileSizeConsumeQueue": _Setting("queue_file_size", kind.QUEUE_FILE_SIZE),
    "maxHashSlotNum": _Setting("index_slot_count", kind.COUNT),
    "maxIndexNum": _Setting("index_entry_count", kind.COUNT),
    "messageIndexEnable": _Setting("index_keys", kind.TRUTH),
    "maxMessageSize": _Setting("body_size_max", kind.COUNT),
    "enabledAppendPropCRC": _Setting("write_checksums", kind.TRUTH),
    "checkCRCOnRead": _Setting("check_reads", kind.TRUTH),
    "messageDelayLevel": _Setting("delay_levels_ms", kind.DELAYS),
    "flushDiskType": _Setting("flush_mode", kind.one_of(FlushMode)),
    "flushIntervalCommitLog": _Setting("flush_interval_ms", kind.INTERVAL_MS),
    "flushCommitLogLeastPages": _Setting("flush_pages_min", kind.number(0)),
    "flushCommitLogThoroughInterval": _Setting("flush_all_interval_ms", kind.INTERVAL_MS),
    "flushConsumeQueueThoroughInterval": _Setting("queue_flush_interval_ms", kind.INTERVAL_MS),
    "maxTransferCountOnMessageInMemory": _Setting("read_count_max_in_memory", kind.COUNT),
    "maxTransferBytesOnMessageInMemory": _Setting("read_size_max_in_memory", kind.COUNT),
    "maxTransferCountOnMessageInDisk": _Setting("read_count_max_on_disk", kind.COUNT),
    "maxTransferBytesOnMessageInDisk": _Setting("read_size_max_on_disk", kind.COUNT),
    "accessMessageInMemoryMaxRatio": _Setting("memory_percent", kind.PERCENT),
    "maxMsgsNumBatch": _Setting("query_count_max", kind.COUNT),
    "fileReservedTime": _Setting("reserved_hours", kind.COUNT),
    "deleteWhen": _Setting("delete_hours", kind.HOURS),
    "diskMaxUsedSpaceRatio": _Setting("disk_used_percent_max", kind.PERCENT),
    "diskSpaceCleanForciblyRatio": _Setting("disk_clean_percent", kind.PERCENT),
    "diskSpaceWarningLevelRatio": _Setting("disk_full_percent", kind.PERCENT),
    "cleanFileForciblyEnable": _Setting("clean_by_force", kind.TRUTH),
}

# How releases before 4.5 spelled it, which Apache ignores now, and what 5.x calls it.
_ALIASES: Final = {
    "haMaxGapNotInSync": "haSlaveFallbehindMax",
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
}

CHANGEABLE: Final = frozenset(
    {
        "accessMessageInMemoryMaxRatio",
        "autoCreateGroupMax",
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "autoCreateTopicMax",
        "brokerPermission",
        "checkCRCOnRead",
        "cleanFileForciblyEnable",
        "consumerFallbehindThreshold",
        "deleteWhen",
        "disableConsumeIfConsumerReadSlowly",
        "diskMaxUsedSpaceRatio",
        "enablePropertyFilter",
        "fileReservedTime",
        "filterSupportRetry",
        "flushConsumerOffsetInterval",
        "flushDelayOffsetInterval",
        "logLevel",
        "longPollingEnable",
        "maxTransferBytesOnBulkPull",
        "maxTransferBytesOnMessageInDisk",
        "maxTransferBytesOnMessageInMemory",
        "maxTransferCountOnMessageInDisk",
        "maxTransferCountOnMessageInMemory",
        "notifyConsumerIdsChangedEnable",
        "registerBrokerTimeoutMills",
        "registerNameServerPeriod",
        "rejectTransactionMessage",
        "shortPollingTimeMills",
        "slaveReadEnable",
        "startAcceptSendRequestTimeStamp",
        "storeReplyMessageEnable",
        "transactionCheckInterval",
        "transactionCheckMax",
        "transactionTimeOut",
    }
)

# Our own, which no file sets, and what has more than one key.
_OURS: Final = {"store", "index_tags", "memory_size", "tls", "replica_id", "is_to_found"}
assert {setting.attribute for table in (_BROKER, _STORE) for setting in table.values()} == {
    *BrokerConfig.__struct_fields__,
    *StoreConfig.__struct_fields__,
} - _OURS
assert CHANGEABLE.issubset(_BROKER.keys() | _STORE.keys())

_TRUTHS: Final = frozenset(
    key for table in (_BROKER, _STORE) for key, each in table.items() if each.kind is kind.TRUTH
)

# What is in two tables is obeyed only where it promises nothing else.
TREATMENTS: Final[Mapping[str, Treatment]] = {
    **dict.fromkeys(HARMLESS, Treatment.HARMLESS),
    **dict.fromkeys((*_BROKER, *_STORE, *_ALIASES, *TLS_KEYS), Treatment.OBEYED),
    **dict.fromkeys(CHANGEABLE, Treatment.CHANGEABLE),
    **dict.fromkeys(PROMISES, Treatment.REFUSED),
}
