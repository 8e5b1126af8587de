"""A broker as a whole: statistics (315), replication (907, 1007), the timer wheel of 5.x, which a
slave copies from its master (60, 61), limits for reading cold data (2003), and accounts: the list
of 4.9 (54), users and policies of 5.x (3001-3010).

The checkpoint of a timer wheel is seven int64:

    0                8                   16                  24
    +----------------+-------------------+-------------------+---------------------------+
    | last read time | flushed log bytes | timer queue offset| timer queue offset, master|
    +----------------+-------------------+-------------------+---------------------------+
    | state version  | timestamp         | counter           |   old ones end before this
    +----------------+-------------------+-------------------+
    32               40                  48                  56
"""

from struct import Struct
from typing import Final, NamedTuple

from roquet.protocol.bodies.body import Body, DataVersion, always
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import Int32, Int64


class BrokerStatsItem(Body, kw_only=True):
    avgpt: float = always(0.0)  # average of the counted value
    sum: Int64 = always(0)
    tps: float = always(0.0)


class BrokerStats(Body, kw_only=True):
    """Reply to 315."""

    stats_day: BrokerStatsItem = always(BrokerStatsItem())
    stats_hour: BrokerStatsItem = always(BrokerStatsItem())
    stats_minute: BrokerStatsItem = always(BrokerStatsItem())


class SlaveConnection(Body, kw_only=True):
    """One slave, seen from its master."""

    addr: str | None = None
    diff: Int64 = always(0)
    in_sync: bool = always(False)
    slave_ack_offset: Int64 = always(0)
    transfer_from_where: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class MasterConnection(Body, kw_only=True):
    """The master, seen from a slave."""

    last_read_timestamp: Int64 = always(0)
    last_write_timestamp: Int64 = always(0)
    master_addr: str | None = None
    master_flush_offset: Int64 = always(0)
    max_offset: Int64 = always(0)
    transferred_byte_in_second: Int64 = always(0)


class HaStatus(Body, kw_only=True):
    """Reply to 907."""

    ha_client_runtime_info: MasterConnection = always(MasterConnection())
    ha_connection_info: list[SlaveConnection] = always([])
    in_sync_slave_nums: Int32 = always(0)
    master: bool = always(False)
    master_commit_log_max_offset: Int64 = always(0)


class EpochRange(Body, kw_only=True):
    """The part of the log that one master wrote; the last one ends at the largest number."""

    end_offset: Int64 = always(2**63 - 1)
    epoch: Int32
    start_offset: Int64


class EpochList(Body, kw_only=True):
    """Reply to 1007."""

    broker_id: Int64 = always(0)
    broker_name: str | None = None
    cluster_name: str | None = None
    epoch_list: list[EpochRange] = always([])
    max_offset: Int64 = always(0)


_CHECKPOINT: Final = Struct(">7q")
_OLD_CHECKPOINT_SIZE: Final = 32


class TimerCheckpoint(NamedTuple):
    last_read_time_ms: int
    timer_log_flush_position: int
    timer_queue_offset: int
    master_timer_queue_offset: int
    data_version: DataVersion


def read_timer_checkpoint(data: bytes) -> TimerCheckpoint:
    """Raises BadBody unless `data` has the size of a checkpoint."""
    if len(data) not in (_CHECKPOINT.size, _OLD_CHECKPOINT_SIZE):
        raise BadBody("TimerCheckpoint", f"cannot have {len(data)} bytes")
    *positions, state_version, timestamp, counter = _CHECKPOINT.unpack(
        data.ljust(_CHECKPOINT.size, b"\0")
    )
    version = DataVersion(state_version=state_version, timestamp=timestamp, counter=counter)
    return TimerCheckpoint._make((*positions, version))


def write_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    *positions, version = checkpoint
    return _CHECKPOINT.pack(*positions, version.state_version, version.timestamp, version.counter)


class TimerMetric(Body, kw_only=True):
    count: Int64 = always(0)
    time_stamp: Int64 = always(0)


class TimerMetrics(Body, kw_only=True):
    """Reply to 61: waiting messages by topic."""

    data_version: DataVersion = always(DataVersion())
    timing_count: dict[str, TimerMetric] = always({})


class ColdReads(Body, kw_only=True):
    cold_acc: Int64 = always(0)
    create_time_mills: Int64 | None = None
    last_cold_read_time_mills: Int64 | None = None


class ColdDataFlow(Body, kw_only=True):
    """Reply to 2003, by consumer group; thresholds in bytes."""

    cg_cold_read_threshold: Int64 = always(0)
    config_table: dict[str, Int64] = always({})
    global_acc: Int64 = always(0)
    global_cold_read_threshold: Int64 = always(0)
    runtime_table: dict[str, ColdReads] = always({})


class DelayedMessages(Body, kw_only=True):
    """Ours: messages for one topic that wait for their time."""

    count: Int64 = always(0)
    # Of those with a delay level; that of other timers is not known by topic.
    next_due_ms: Int64 | None = None


# Of `WaitingMessages.due_counts`: a minute, ten, an hour, six, a day, a week.
DUE_BOUNDS_S: Final = (60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)


class WaitingMessages(Body, kw_only=True):
    """Reply to 710004, which is ours: messages that are stored and cannot be consumed yet.

    Retries wait for their topic, `%RETRY%group`.
    """

    delayed: dict[str, DelayedMessages] = always({})
    # How many of them are due within each of DUE_BOUNDS_S and not before, and how many later.
    due_counts: list[Int64] = always([])
    # Of open transactions: how many, and the topics of the oldest of them.
    half_count: Int64 = always(0)
    half_topics: dict[str, Int64] = always({})
    # By group: popped, and neither acknowledged nor redelivered; due is the next redelivery.
    in_flight: dict[str, DelayedMessages] = always({})
    # Shortly after a start, some are not counted yet.
    is_counted: bool = always(True)
    # By group: pops that wait for a message.
    waiting_pops: dict[str, Int64] = always({})


class AccountConfig(Body, kw_only=True):
    access_key: str
    admin: bool = always(False)
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] | None = None  # such as "group=SUB"
    secret_key: str | None = None
    topic_perms: list[str] | None = None  # such as "topic=PUB|SUB"
    white_remote_address: str | None = None

    def __repr__(self) -> str:
        return f"AccountConfig({self.access_key!r})"


class AccountConfigs(Body, kw_only=True):
    """Reply to 54."""

    global_white_addrs: list[str] = always([])
    plain_access_configs: list[AccountConfig] = always([])


class User(Body, kw_only=True):
    """Requests 3001 and 3002, reply to 3004, and item of the reply to 3005."""

    password: str | None = None
    user_status: str | None = None  # "enable" or "disable"
    user_type: str | None = None  # "Super" or "Normal"
    username: str | None = None

    def __repr__(self) -> str:
        return f"User({self.username!r})"


class PolicyEntry(Body, kw_only=True):
    actions: list[str] | None = None  # such as "Pub", "Sub", "All"
    decision: str | None = None  # "Allow" or "Deny"
    resource: str | None = None  # such as "Topic:orders", "Group:*"
    source_ips: list[str] | None = None


class Policy(Body, kw_only=True):
    entries: list[PolicyEntry] | None = None
    policy_type: str | None = None  # "Custom" or "Default"


class Acl(Body, kw_only=True):
    """Requests 3006 and 3007, reply to 3009, and item of the reply to 3010."""

    policies: list[Policy] | None = None
    subject: str | None = None  # such as "User:ann"
