"""What a group of consumers has still to do in an embedded cluster.

Brokers know what was committed; that comes seconds late, so members are asked how far they are.
What waits to be tried again counts, too.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from roquet.broker.broker import Broker
from roquet.client.received import ReceivedMessage
from roquet.errors import RoquetError
from roquet.net.errors import NetError
from roquet.net.peers import Peers
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offsets import ConsumerStatus
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.groups import ConsumerStatusHeader
from roquet.protocol.names import retry_topic

_ASK_TIMEOUT_S: Final = 10.0
_READ_COUNT: Final = 1_000_000


class NotConsumed(RoquetError):
    """A group has not done its work within the time it was given."""

    def __init__(self, group: str, timeout_s: float, left: list[str]) -> None:
        super().__init__(f"group {group!r} is not done after {timeout_s:g} s: {'; '.join(left)}")
        self.group = group
        self.left = left


class HasDeadLetters(RoquetError):
    """A group is done, and gave up on some messages."""

    def __init__(self, group: str, letters: Sequence[ReceivedMessage]) -> None:
        last = letters[-1]
        reason, error_type, try_count = last.dlq_reason or (None, None, 0)
        error = f"{error_type}: {reason}" if error_type else "its consumer recorded no reason"
        super().__init__(
            f"group {group!r} has {len(letters)} dead letters; the last one, {last.message_id} of "
            f"{last.topic}, after {try_count} tries: {error}; allow_dead_letters=True accepts them"
        )
        self.group = group
        self.letters = tuple(letters)


class NotReceived(RoquetError):
    """A topic has not received as many messages as were expected within the time given."""

    def __init__(self, topic: str, count: int, expected_count: int, timeout_s: float) -> None:
        super().__init__(
            f"topic {topic!r} has {count} messages after {timeout_s:g} s, not {expected_count}"
        )
        self.topic = topic
        self.count = count


class Left(NamedTuple):
    """What is left at one broker."""

    unread: list[str]  # for people
    # Those that wait for their next try or, if these are wanted, for the time of their delivery.
    waiting_count: int
    # When the first of them is due.
    due_ms: int | None

    def described(self) -> list[str]:
        if not self.waiting_count:
            return self.unread
        waiting = f"{self.waiting_count} wait for their next try or time; use skip_delays=True"
        return [*self.unread, waiting]


def records_of(broker: Broker, topic: str, queue_id: int, begin: int = 0) -> list[bytes]:
    """All messages of a queue, from an offset on."""
    store = broker.store
    begin = max(begin, store.min_offset(topic, queue_id))
    entries = store.entries(topic, queue_id, begin, _READ_COUNT)
    return [store.record_at(entry.physical_offset) for entry in entries]


async def left_at(
    broker: Broker, address: str, peers: Peers, group: str, *, with_delayed: bool
) -> Left | None:
    """What is left at one broker, with messages that producers delayed if these are wanted; None
    if it does not know the group."""
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
    waiting_count, due_ms = _waiting(
        broker, {retry_topic(group), *(topics if with_delayed else ())}
    )
    if (left or waiting_count) and members is None:
        left.append("no member of the group is connected")
    return Left(left, waiting_count, due_ms)


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


def _waiting(broker: Broker, topics: Collection[str]) -> tuple[int, int | None]:
    """How many messages for these topics wait, and when the first of them is due."""
    delays = broker.waiting.delays
    found = [(count, due_ms) for topic, count, due_ms in delays.waiting() if topic in topics]
    # Of which topic the next timer is, is not known: it is one of ours, or comes before it.
    times_ms = [delays.timers.next_due_ms() if each is None else each for _, each in found]
    due_ms = min((each for each in times_ms if each is not None), default=None)
    return sum(count for count, _ in found), due_ms


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
