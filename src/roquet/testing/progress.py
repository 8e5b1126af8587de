"""What a group of consumers has still to do in an embedded cluster.

Brokers know what was committed; that comes seconds late, so members are asked how far they are.
What waits to be tried again counts, too.
"""

from collections.abc import Mapping
from typing import Final

from roquet.broker.broker import Broker
from roquet.errors import RoquetError
from roquet.net.errors import NetError
from roquet.net.peers import Peers
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offsets import ConsumerStatus
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.groups import ConsumerStatusHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import SCHEDULE_TOPIC, retry_topic

_ASK_TIMEOUT_S: Final = 10.0
_READ_COUNT: Final = 1_000_000


class NotConsumed(RoquetError):
    """A group has not done its work within the time it was given."""

    def __init__(self, group: str, timeout_s: float, left: list[str]) -> None:
        super().__init__(f"group {group!r} is not done after {timeout_s:g} s: {'; '.join(left)}")
        self.group = group
        self.left = left


def records_of(broker: Broker, topic: str, queue_id: int, begin: int = 0) -> list[bytes]:
    """All messages of a queue, from an offset on."""
    store = broker.store
    begin = max(begin, store.min_offset(topic, queue_id))
    entries = store.entries(topic, queue_id, begin, _READ_COUNT)
    return [store.record_at(entry.physical_offset) for entry in entries]


async def left_at(broker: Broker, address: str, peers: Peers, group: str) -> list[str] | None:
    """What is left at one broker, for people; None if it does not know the group."""
    members = broker.clients.consumers.find(group)
    topics = {*broker.tables.offsets.topics_of(group), *(members.subscriptions if members else ())}
    if not topics:
        return None
    left = []
    for topic in sorted(topics):
        positions = dict(broker.tables.offsets.queues(group, topic))
        if members is not None:
            asked = await _positions_of_members(peers, broker, address, group, topic)
            for queue_id, offset in asked.items():
                positions[queue_id] = max(offset, positions.get(queue_id, offset))
        left += _left_of_topic(broker, topic, positions)
    waiting_count = _waiting_count(broker, retry_topic(group))
    if waiting_count:
        left.append(f"{waiting_count} that failed wait for their next try; move the clock")
    if left and members is None:
        left.append("no member of the group is connected")
    return left


def _left_of_topic(broker: Broker, topic: str, positions: Mapping[int, int]) -> list[str]:
    config = broker.tables.topics.find(topic)
    if config is None:
        return []
    left = []
    for queue_id in range(config.read_queue_nums):
        begin = positions.get(queue_id, broker.store.min_offset(topic, queue_id))
        count = broker.store.max_offset(topic, queue_id) - begin
        if count > 0:
            name = broker.config.broker_name
            left.append(f"{count} in queue {queue_id} of {topic} at {name}")
    return left


def _waiting_count(broker: Broker, topic: str) -> int:
    """How many messages for a topic wait in delay levels, as retries do."""
    records = [
        record
        for level, offset in broker.waiting.delays.levels.offsets().items()
        for record in records_of(broker, SCHEDULE_TOPIC, level - 1, offset)
    ]
    return sum(read_record(each).properties.get(Property.REAL_TOPIC) == topic for each in records)


async def _positions_of_members(
    peers: Peers, broker: Broker, address: str, group: str, topic: str
) -> dict[int, int]:
    """By queue of this broker."""
    header = ConsumerStatusHeader(topic=topic, group=group)
    request = Command(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields=fields_of(header))
    try:
        reply = await peers.call(address, request, _ASK_TIMEOUT_S)
    except NetError:
        return {}  # It is being stopped; the caller asks again.
    if reply.code != ResponseCode.SUCCESS:
        return {}  # The last member has just left.
    positions: dict[int, int] = {}
    for table in read_body(ConsumerStatus, reply.body).consumer_table.values():
        for queue, offset in table.items():
            if queue.broker_name == broker.config.broker_name:
                positions[queue.queue_id] = max(offset, positions.get(queue.queue_id, offset))
    return positions
