"""What a pull may bring: how many messages, how many bytes, and which."""

from typing import Any, Final

from roquet.broker.messages.subscriptions import filter_of_pull
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.clients import ConsumerGroup
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.store.reading.queue_reading import QueueReadLimits

# What Java's 5.x consumers name in every pull, whatever their program wants: push consumers the
# one, pull consumers the other. Apache's brokers ignore it, so these get what they get there.
_SIZES_OF_JAVA: Final = frozenset({256 * 1024, 2**31 - 1})
# No record is smaller, so no pull needs to look at more of them than fit.
_RECORD_SIZE_MIN: Final = 91


def limits_of_pull(
    pull: PullMessageHeader,
    members: ConsumerGroup[Any] | None,
    settings: GroupConfig,
    config: BrokerConfig,
) -> QueueReadLimits:
    """`members` are the consumers that are connected. Raises what `filter_of_pull` does."""
    matches_code, matches_record = filter_of_pull(pull, members, settings, config)
    count_max = max(1, pull.max_msg_nums)
    size_max = pull.max_msg_bytes
    if not size_max or size_max in _SIZES_OF_JAVA:
        size_max = config.store.read_size_max_in_memory
        return QueueReadLimits(count_max, size_max, matches_code, matches_record)
    size_max = min(size_max, config.bulk_pull_size_max)
    count_max = min(count_max, max(1, size_max // _RECORD_SIZE_MIN))
    return QueueReadLimits(count_max, size_max, matches_code, matches_record, is_bulk=True)
