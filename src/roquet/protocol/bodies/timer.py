"""State of the timer wheel of 5.x, which a slave copies from its master (60, 61).

A checkpoint is seven int64:

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

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.data_version import DataVersion
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import Int64

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
