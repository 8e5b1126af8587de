"""The configuration of a broker: Apache's keys under our names, with Apache's defaults.

`apache_keys.py` reads and writes it as Apache does. A config never changes: a change at run time
makes a new one, which the broker passes to its readers.
"""

import asyncio
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from socket import gethostname
from typing import Final, final

import msgspec
from msgspec.structs import replace

from roquet.access.accounts import OwnAccount
from roquet.broker.replication.in_sync import AckPolicy, AckRule
from roquet.net.limits import DEFAULT_LIMITS, DEFAULT_SERVER_LIMITS, ConnectionLimits, ServerLimits
from roquet.net.tls.settings import TlsFiles, TlsSettings
from roquet.protocol.bodies.brokers import User
from roquet.protocol.bodies.pop import MessageRequestMode
from roquet.protocol.codes import Permission
from roquet.protocol.host import Address
from roquet.protocol.names import TRACE_TOPIC
from roquet.settings.changes import LOG_LEVEL_DEFAULT, LogLevel
from roquet.settings.options import ConfigError
from roquet.store.config import StoreConfig

# The ports of a broker, seen from `listen_port`. The distances are fixed: peers compute one port
# from the other. The fast port of old clients and of Apache slaves has everything but pulls.
FAST_PORT_DISTANCE: Final = -2
HA_PORT_DISTANCE: Final = 1


LOOPBACK: Final = "127.0.0.1"
SECRET_SIZE_MIN: Final = 16

# File sizes for brokers that start often and store little: tests, demonstrations, `roquet up`. A
# broker allocates its newest log file at once: Apache's gigabyte suits a server with a disk of its
# own, sixteen megabytes fit a temporary directory. The largest message allowed by default takes a
# quarter of that.
SMALL_FILES: Final = {
    "mappedFileSizeCommitLog": str(16 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 6000),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
}


class BrokerRole(Enum):
    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The comment after a member is Apache's key for it."""

    store: StoreConfig

    cluster_name: str = "DefaultCluster"  # brokerClusterName
    broker_name: str = msgspec.field(default_factory=gethostname)  # brokerName
    broker_id: int = 0  # brokerId
    role: BrokerRole = BrokerRole.ASYNC_MASTER  # brokerRole
    permission: int = int(Permission.READ | Permission.WRITE)  # brokerPermission
    region_id: str = "DefaultRegion"  # regionId
    trace_on: bool = True  # traceOn

    bind_address: str | None = None  # bindAddress
    advertised_host: str | None = None  # brokerIP1
    ha_advertised_host: str | None = None  # brokerIP2
    listen_port: int = 10911  # listenPort
    idle_timeout_s: int = 120  # serverChannelMaxIdleTimeSeconds
    # How much all peers together may take; not keys of Apache's.
    connection_count_max: int = DEFAULT_SERVER_LIMITS.connection_count_max  # maxConnections
    # maxConnectionsPerAddress
    connection_count_max_per_address: int = DEFAULT_SERVER_LIMITS.connection_count_max_per_address
    accept_rate_max: int = DEFAULT_SERVER_LIMITS.accept_rate_max  # maxAcceptsPerSecond
    held_size_max: int = DEFAULT_SERVER_LIMITS.held_size_max  # maxHeldBytes
    deferred_count_max: int = DEFAULT_LIMITS.deferred_count_max  # maxRequestsPerConnection
    all_deferred_count_max: int = DEFAULT_SERVER_LIMITS.deferred_count_max  # maxWaitingRequests
    tls: TlsSettings = TlsSettings()  # tls.server.mode and others
    # Monitoring; not keys of Apache's.
    http_place: Address | None = None  # httpListen
    # Clients of 5.x; without it there is no endpoint for them. Not a key of Apache's.
    grpc_port: int | None = None  # grpcPort
    # For how long a signed call can be repeated; 0 for ever, as at Apache. Not a key of Apache's.
    grpc_signature_age_s_max: int = 0  # grpcSignatureMaxAgeSeconds
    log_level: LogLevel = LOG_LEVEL_DEFAULT  # logLevel

    # Access control: without it, every peer may do everything.
    access_control: bool = False  # aclEnable
    # Where accounts are: in this file, which is not a key of Apache's, or below a home directory.
    accounts_file: Path | None = None  # aclFile
    home: Path | None = None  # rocketmqHome
    # Whether requests of administrators are refused on plain connections; not a key of Apache's.
    admin_requires_tls: bool = False  # aclAdminRequiresTls
    # Users and policies of 5.x, in a file that is not a key of Apache's.
    authentication: bool = False  # authenticationEnabled
    authorization: bool = False  # authorizationEnabled
    users_file: Path | None = None  # usersFile
    first_user: User | None = None  # initAuthenticationUser
    # Codes of requests that need no user, or no policy.
    unauthenticated_codes: tuple[str, ...] = ()  # authenticationWhitelist
    unauthorized_codes: tuple[str, ...] = ()  # authorizationWhitelist
    # The identity of this broker.
    own_account: OwnAccount | None = None  # innerClientAuthenticationCredentials

    # Addresses, or the one page that names them.
    name_servers: tuple[str, ...] = ()  # namesrvAddr
    register_interval_ms: int = 30_000  # registerNameServerPeriod
    register_timeout_ms: int = 6_000  # registerBrokerTimeoutMills

    # What no request may change, whatever else may be changed.
    locked_settings: tuple[str, ...] = ("configBlackList", "brokerConfigPath")  # configBlackList
    # How long a send waits for the disk before it is answered with an unknown outcome.
    sync_timeout_ms: int = 5_000  # syncFlushTimeout

    # Replication. A port of 0 is the one above `listen_port`.
    ha_listen_port: int = 0  # haListenPort
    ha_master_address: str | None = None  # haMasterAddress
    ha_heartbeat_interval_ms: int = 5_000  # haSendHeartbeatInterval
    ha_silence_ms_max: int = 20_000  # haHousekeepingInterval
    ha_frame_size_max: int = 32_768  # haTransferBatchSize
    # A slave this far behind is not waited for, and one that is nearer for this long.
    ha_lag_size_max: int = 256 << 20  # haSlaveFallbehindMax
    slave_timeout_ms: int = 3_000  # slaveTimeout
    slaves_are_read: bool = False  # slaveReadEnable
    slave_checks_offsets: bool = False  # offsetCheckInSlave

    # More than Apache guarantees, between brokers of ours; none of these is a key of Apache's.
    # What they prove to each other that they know. Without it there are no epochs.
    replication_secret_file: Path | None = None  # replication.secretFile
    # Whether slaves that prove nothing, like Apache's, may follow all the same.
    takes_plain_slaves: bool = False  # replication.plainSlaves
    # When a send is acknowledged; None leaves it to `role`.
    ack_policy: AckPolicy | None = None  # replication.acknowledge
    # How many brokers of this name there are, for a quorum of them.
    replica_count: int = 3  # replication.replicas
    # How long a slave may be behind and still count as in sync; `ha_lag_size_max` counts, too.
    lag_s_max: int = 10  # replication.lagSeconds
    # Where etcd is. With it, another broker steps in for a lost master.
    etcd: tuple[str, ...] = ()  # replication.etcd
    # For servers of etcd that begin with https://; whom to trust is the system's without a file.
    etcd_trusted: Path | None = None  # replication.etcdTrustCertPath
    etcd_certificate: Path | None = None  # replication.etcdCertPath
    etcd_key: Path | None = None  # replication.etcdKeyPath
    lease_s: int = 4  # replication.leaseSeconds
    # Whether a person wants this broker to be the first master, though etcd had another record.
    is_to_found: bool = False  # --found
    # `broker_id` while this one is a slave: the value in the file, of masters too.
    replica_id: int = 0

    create_topics: bool = True  # autoCreateTopicEnable
    create_groups: bool = True  # autoCreateSubscriptionGroup
    # Once there are this many, only operators make more; not keys of Apache's.
    created_topic_count_max: int = 10_000  # autoCreateTopicMax
    created_group_count_max: int = 10_000  # autoCreateGroupMax
    # What tables hold that peers fill; not keys of Apache's.
    lock_count_max: int = 100_000  # maxQueueLocks
    offset_count_max: int = 500_000  # maxConsumerOffsets
    membership_count_max: int = 200_000  # maxMemberships
    subscription_size_max: int = 64 << 20  # maxSubscriptionBytes
    template_queue_count: int = 8  # defaultTopicQueueNums
    open_cluster_topic: bool = True  # clusterTopicEnable
    open_broker_topic: bool = True  # brokerTopicEnable
    make_trace_topic: bool = False  # traceTopicEnable
    trace_topic: str = TRACE_TOPIC  # msgTraceTopicName

    accept_sends_from_ms: int = 0  # startAcceptSendRequestTimeStamp
    refuse_transactions: bool = False  # rejectTransactionMessage
    store_replies: bool = True  # storeReplyMessageEnable
    # How long a send may wait for the loop before it is refused; 0 is for ever. Apache refuses
    # after 200 ms, which helps only senders that have another broker.
    send_wait_ms_max: int = 0  # waitTimeMillsInSendQueue
    refuse_late_sends: bool = True  # brokerFastFailureEnable

    long_polling: bool = True  # longPollingEnable
    short_polling_ms: int = 1_000  # shortPollingTimeMills
    # What a pull that names its size may bring; not a key of Apache's.
    bulk_pull_size_max: int = 1 << 20  # maxTransferBytesOnBulkPull
    # What a client does with the queues that the broker gives it, and whether it gives each a part.
    request_mode: MessageRequestMode = MessageRequestMode.PULL  # defaultMessageRequestMode
    share_out_queues: bool = True  # serverLoadBalancerEnable
    pop_share_count: int = -1  # defaultPopShareQueueNum
    # Pops that wait: of one group for one topic and queue, and of all.
    pop_poll_count_max: int = 1_024  # popPollingSize
    all_pop_poll_count_max: int = 100_000  # maxPopPollingSize
    # How often, in percent, a pop looks into the retry topic first.
    pop_retry_percent: int = 20  # popFromRetryProbability
    pop_retries_v2: bool = False  # enableRetryTopicV2
    pop_reads_retries_v1: bool = True  # retrieveMessageFromPopRetryTopicV1
    pop_young_topics_from_start: bool = True  # initPopOffsetByCheckMsgInMem
    show_retry_topics: bool = False  # popResponseReturnActualRetryTopic
    drop_pops_of_lost_groups: bool = True  # popReviveSkipIfGroupAbsent
    # Whether a group that has this many messages of a queue out gets no more of it.
    limit_in_flight: bool = False  # enablePopMessageThreshold
    in_flight_count_max: int = 10_000  # popInflightMessageThreshold
    sql_filters: bool = False  # enablePropertyFilter
    sql_filters_for_retries: bool = False  # filterSupportRetry
    notify_consumers: bool = True  # notifyConsumerIdsChangedEnable
    # Whether groups that are this far behind, in bytes of the log, are kept from reading on.
    disable_slow_groups: bool = False  # disableConsumeIfConsumerReadSlowly
    slow_group_size: int = 16 << 30  # consumerFallbehindThreshold
    save_offsets_interval_ms: int = 5_000  # flushConsumerOffsetInterval

    transaction_timeout_ms: int = 6_000  # transactionTimeOut
    transaction_check_count_max: int = 15  # transactionCheckMax
    transaction_check_interval_ms: int = 60_000  # transactionCheckInterval
    # What was delivered since comes again after a crash. Apache saves every ten seconds; a broker
    # that crashes more often than that would deliver the same over and over.
    save_delays_interval_ms: int = 1_000  # flushDelayOffsetInterval
    # Apache's default is false.
    recalls: bool = True  # recallMessageEnable

    @property
    def bind_host(self) -> str:
        """Peers of other machines are served only if an address is named."""
        return self.bind_address or LOOPBACK

    @property
    def send_wait_s_max(self) -> float:
        return self.send_wait_ms_max / 1000 if self.refuse_late_sends else 0.0

    @property
    def server_limits(self) -> ServerLimits:
        return ServerLimits(
            connection_count_max=self.connection_count_max,
            connection_count_max_per_address=self.connection_count_max_per_address,
            accept_rate_max=self.accept_rate_max,
            held_size_max=self.held_size_max,
            deferred_count_max=self.all_deferred_count_max,
        )

    @property
    def limits(self) -> ConnectionLimits:
        return ConnectionLimits(
            idle_timeout_s=self.idle_timeout_s, deferred_count_max=self.deferred_count_max
        )

    @property
    def is_slave(self) -> bool:
        return self.role is BrokerRole.SLAVE

    @property
    def etcd_is_encrypted(self) -> bool:
        return any(server.startswith("https://") for server in self.etcd)

    @property
    def etcd_files(self) -> TlsFiles:
        return TlsFiles(
            certificate=self.etcd_certificate, key=self.etcd_key, trusted=self.etcd_trusted
        )

    @property
    def has_tls_files(self) -> bool:
        """Whether there is anything to be read again at SIGHUP."""
        return self.tls.has_files or self.etcd_files != TlsFiles()

    @property
    def own_ack_rule(self) -> AckRule | None:
        """None for a slave without a policy of its own: it takes that of its master."""
        policy = self.ack_policy
        if policy is None and not self.is_slave:
            is_sync = self.role is BrokerRole.SYNC_MASTER
            policy = AckPolicy.ONE if is_sync else AckPolicy.ASYNC
        return None if policy is None else AckRule(policy, self.replica_count)

    @property
    def ack_rule(self) -> AckRule:
        """What is obeyed while this broker is the master."""
        return self.own_ack_rule or AckRule(AckPolicy.ASYNC, self.replica_count)

    @property
    def replicas_needed(self) -> int:
        """How many brokers must have a message before it is acknowledged, this one among them."""
        return self.ack_rule.replicas_needed

    @property
    def waits_for_slaves(self) -> bool:
        return self.replicas_needed > 1

    def as_master(self, learned: AckRule | None = None) -> "BrokerConfig":
        """`learned` is the rule of the last master, for a slave without one of its own.

        What was promised to senders must not depend on which broker is the master.
        """
        rule = self.own_ack_rule or learned or self.ack_rule
        is_async = rule.policy is AckPolicy.ASYNC
        return replace(
            self,
            role=BrokerRole.ASYNC_MASTER if is_async else BrokerRole.SYNC_MASTER,
            broker_id=0,
            ack_policy=rule.policy,
            replica_count=rule.broker_count,
        )

    def as_slave(self, broker_id: int) -> "BrokerConfig":
        """It keeps the policy that its role as a master implies: it may be elected again."""
        rule = self.own_ack_rule
        policy = None if rule is None else rule.policy
        return replace(self, role=BrokerRole.SLAVE, broker_id=broker_id, ack_policy=policy)

    @property
    def ha_port(self) -> int:
        """Where slaves find the log."""
        return self.ha_listen_port or self.listen_port + HA_PORT_DISTANCE


def check_replication(config: BrokerConfig) -> None:
    """Checks options of replication that need each other. Raises ConfigError."""
    _check_etcd_files(config)
    _check_policy(config)
    if not config.etcd:
        return
    servers = ",".join(config.etcd)
    if config.replication_secret_file is None:
        reason = "it needs replication.secretFile, the same at all brokers of this name"
        raise ConfigError("replication.etcd", servers, reason)
    if config.replica_id == 0:
        reason = "with replication.etcd every broker of a name has a number of its own, above 0"
        raise ConfigError("brokerId", "0", reason)


def _check_policy(config: BrokerConfig) -> None:
    policy = config.ack_policy
    if policy is AckPolicy.ASYNC and config.role is BrokerRole.SYNC_MASTER:
        reason = "brokerRole=SYNC_MASTER waits for a slave: use ASYNC_MASTER, or leave this out"
        raise ConfigError("replication.acknowledge", policy.value, reason)
    if policy not in (None, AckPolicy.ASYNC) and config.replica_count == 1:
        reason = f"replication.acknowledge={policy.value} needs a second broker: at least 2"
        raise ConfigError("replication.copies", "1", reason)


def _check_etcd_files(config: BrokerConfig) -> None:
    files = {
        "replication.etcdTrustCertPath": config.etcd_trusted,
        "replication.etcdCertPath": config.etcd_certificate,
        "replication.etcdKeyPath": config.etcd_key,
    }
    for key, path in files.items():
        if path is not None and not config.etcd_is_encrypted:
            reason = "nothing is encrypted: servers in replication.etcd have to start with https://"
            raise ConfigError(key, str(path), reason)
    if config.etcd_key is not None and config.etcd_certificate is None:
        reason = "it is the key of no certificate: name that in replication.etcdCertPath"
        raise ConfigError("replication.etcdKeyPath", str(config.etcd_key), reason)


def read_secret(path: Path) -> bytes:
    """Raises ConfigError."""
    key = "replication.secretFile"
    try:
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(key, str(path), f"cannot be read: {error.strerror}") from None
    if len(secret) < SECRET_SIZE_MIN:
        reason = f"has {len(secret)} bytes, and {SECRET_SIZE_MIN} are needed: openssl rand -hex 32"
        raise ConfigError(key, str(path), reason)
    return secret


@final
class Pauses:
    """Pauses whose length is an option: a change takes effect at once, not after the old time."""

    def __init__(self) -> None:
        self._has_changed = asyncio.Event()

    async def pause(self, interval_ms: Callable[[], int]) -> None:
        """Returns when that much time has passed since the call."""
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        while (left_s := begin_s + interval_ms() / 1000 - loop.time()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    await self._has_changed.wait()
            except TimeoutError:
                return

    def settings_changed(self) -> None:
        """All pauses compute their length again."""
        self._has_changed.set()
        self._has_changed.clear()
