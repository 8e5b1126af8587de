"""Offsets: those of consumers, as brokers store them and operators reset them, and how far a
group is with each queue (208, 303, 317); the progress of a broker with delayed messages and
transactions.

The progress of a broker is valid only for a log that has what it stored meanwhile. So `true_at`
goes with it, an extension of ours: the physical offset that a log has to reach. Apache ignores it,
and what Apache wrote has none.
"""

from msgspec import field

from roquet.protocol.bodies.body import Body, DataVersion, MessageQueue, QueueTable, always
from roquet.protocol.fields import Int32, Int64


class TransactionProgress(Body, kw_only=True):
    """Ours: up to where the check has handled half messages, and needs no op messages."""

    half_offset: Int64 = always(0)
    op_offset: Int64 = always(0)
    true_at: Int64 | None = None


class PopProgress(Body, kw_only=True):
    """Ours: the last record of each queue of the journal of popped messages that is dealt with."""

    offset_table: dict[Int32, Int64] = always({})
    true_at: Int64 | None = None


class ConsumerOffsetTable(Body, kw_only=True):
    """Reply to 43, and the state file of the same content. Keys are "topic@group"."""

    data_version: DataVersion | None = None
    group_topic_map: dict[str, list[str]] = field(default_factory=dict)
    offset_table: dict[str, dict[Int32, Int64]] = always({})
    # Ours, in the state file alone: the last one is what the table has for the journal of pops.
    pop_progress: list[PopProgress] = field(default_factory=list)
    pull_offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)
    # Ours, in the state file alone: the last one is what the table has for the transaction check.
    transaction_progress: list[TransactionProgress] = field(default_factory=list)


class DelayOffsetTable(Body, kw_only=True):
    """Reply to 45, and the state file of the same content. Keys are delay levels."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = always({})
    true_at: Int64 | None = None


class TimerProgress(Body, kw_only=True):
    """Ours: the content of `timers.json`, explained in `broker/delays/timers.py`."""

    delivered_until_s: Int64 = always(0)
    first_offset: Int64 = always(0)
    next_offset: Int64 = always(0)
    true_at: Int64 | None = None


class AllProgress(Body, kw_only=True):
    """Reply to 45 between brokers of ours: what a DelayOffsetTable has, and the others."""

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = always({})
    pops: PopProgress | None = None
    timers: TimerProgress | None = None
    transactions: TransactionProgress | None = None
    true_at: Int64 | None = None


class ResetOffsets(Body, kw_only=True):
    """Reply to 222, and the request to the clients that follows it (220)."""

    offset_table: QueueTable[Int64] = always(QueueTable())


class ResetOffset(Body, kw_only=True):
    broker_name: str
    offset: Int64
    queue_id: Int32
    topic: str


class ResetOffsetList(Body, kw_only=True):
    """220 for clients in C++, which cannot read tables keyed by queue."""

    offset_table: list[ResetOffset] = always([])


class ConsumerStatus(Body, kw_only=True):
    """Reply to 221 (`message_queue_table`) and to 223 (`consumer_table`, by client id)."""

    consumer_table: dict[str, QueueTable[Int64]] = always({})
    message_queue_table: QueueTable[Int64] = always(QueueTable())


class CorrectionOffsets(Body, kw_only=True):
    """Reply to 308."""

    correction_offsets: dict[Int32, Int64] = always({})


class ConsumeOffsets(Body, kw_only=True):
    broker_offset: Int64 = always(0)
    consumer_offset: Int64 = always(0)
    last_timestamp: Int64 = always(0)
    pull_offset: Int64 = 0


class ConsumeStats(Body, kw_only=True):
    """Reply to 208."""

    consume_tps: float = always(0.0)
    offset_table: QueueTable[ConsumeOffsets] = always(QueueTable())


class ConsumeStatsList(Body, kw_only=True):
    """Reply to 317: for each group the statistics of each of its topics."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = always([])
    total_diff: Int64 = always(0)
    total_inflight_diff: Int64 = 0


class ConsumeTimeSpan(Body, kw_only=True):
    consume_time_stamp: Int64 = always(0)
    delay_time: Int64 = always(0)
    max_time_stamp: Int64 = always(0)
    message_queue: MessageQueue
    min_time_stamp: Int64 = always(0)


class ConsumeTimeSpans(Body, kw_only=True):
    """Reply to 303."""

    consume_time_span_set: list[ConsumeTimeSpan] = always([])
