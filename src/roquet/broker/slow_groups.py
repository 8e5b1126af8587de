"""Groups that are so far behind that they read what nobody else needs, from a disk that all need.

If the operator wants it, they may read no more until somebody allows it again: Apache's
`disableConsumeIfConsumerReadSlowly`. How far behind is measured in bytes of the log, from what a
group has committed; a group that only broadcasts commits nothing and is left alone.
"""

import logging

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.errors import TableNotWritten

log = logging.getLogger(__name__)


def disable_slow_groups(broker: Broker) -> None:
    """Pulls of such groups are answered with "no permission" from now on."""
    config = broker.config
    if not config.disable_slow_groups:
        return
    for settings in broker.groups:
        group = settings.group_name
        if not settings.consume_enable or broker.consumers.find(group) is None:
            continue
        size = size_behind(broker, group)
        if size > config.slow_group_size:
            log.warning("group %s is %d bytes behind; it may not consume any more", group, size)
            try:
                broker.groups.update(replace(settings, consume_enable=False, attributes={}))
            except TableNotWritten as refused:
                log.warning("group %s goes on consuming: %s", group, refused.remark)


def size_behind(broker: Broker, group: str) -> int:
    """From the oldest message that the group has not done, in any queue, to the end of the log."""
    positions = [
        position
        for topic in broker.offsets.topics_of(group)
        for queue_id, offset in broker.offsets.queues(group, topic).items()
        if (position := _position(broker, topic, queue_id, offset)) is not None
    ]
    return broker.store.log_end - min(positions) if positions else 0


def _position(broker: Broker, topic: str, queue_id: int, offset: int) -> int | None:
    """In the log, of what comes next for a group; None at the end of the queue."""
    store = broker.store
    offset = max(offset, store.min_offset(topic, queue_id))
    if offset >= store.max_offset(topic, queue_id):
        return None
    entries = store.entries(topic, queue_id, offset, 1)
    return entries[0].physical_offset if entries else None
