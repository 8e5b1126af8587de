"""How far each group has come in each queue, in memory and as `consumerOffset.json`.

An offset is the next message to consume. May it go back? A pull that carries an offset only
ever moves it forward. A commit is taken as it is, even when it is smaller: operators' tools, a
consumer that seeks, and a client whose offset does not exist all commit that way,
and nothing distinguishes them from a late commit of a former owner. Taken wrongly, a smaller offset
costs messages delivered twice; refused wrongly, it costs messages never delivered.

An operator's reset is stronger than both. Until the next pull of that queue has got it,
what clients commit is left aside: they still commit where they were before.

How far each group has pulled is kept in memory alone: operators see by it what is on its way.

A slave follows the table of its master. What was committed at the slave itself, while the master
was away, is its own: it never goes back, and is reported to the master when it returns.

The transaction check keeps its progress here as Apache does: as that of the group
CID_RMQ_SYS_TRANS. It is true only for a log that has what the check stored, so `transactions`
knows it, too, with the end of that log (see `durable_state`), and the table has what counts there.
A slave does not take it from its master's table, but from the master's progress with that end. The
same goes for the journal of popped messages, `pops`, as group CID_RMQ_SYS_REVIVE_GROUP.

Handlers check topic, group and queue before they commit, and that there is room: the table takes
any name.
"""

import os
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, final

from msgspec.structs import replace

from roquet.broker.errors import BadOffset
from roquet.broker.tables.durable_state import DurableState
from roquet.net.errors import TableFull
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offsets import (
    ConsumerOffsetTable,
    PopProgress,
    TransactionProgress,
)
from roquet.protocol.names import (
    HALF_TOPIC,
    OP_HALF_TOPIC,
    REVIVE_GROUP,
    TRANSACTION_GROUP,
    is_name,
    revive_topic,
)

OFFSET_COUNT_MAX: Final = 500_000
# How far groups have pulled is shown to operators, and not needed.
PULLED_COUNT_MAX: Final = 500_000

_SEPARATOR: Final = "@"  # In the file a key is "topic@group"; no name contains it.
_NAME_SIZE: Final = 8
_NO_QUEUES: Final[Mapping[int, int]] = MappingProxyType({})
# Apache makes one queue of each of the two topics of transactions and uses no other.
HALF_QUEUE_ID: Final = 0
_HALF_KEY: Final = f"{HALF_TOPIC}{_SEPARATOR}{TRANSACTION_GROUP}"
_OP_KEY: Final = f"{OP_HALF_TOPIC}{_SEPARATOR}{TRANSACTION_GROUP}"


class _QueueOfGroup(NamedTuple):
    group: str
    topic: str
    queue_id: int


class OwnOffset(NamedTuple):
    """What a slave knows, and its master does not."""

    group: str
    topic: str
    queue_id: int
    offset: int


@final
class OffsetTable:
    """Counts its changes, so that nothing is saved when there are none."""

    __slots__ = (
        "_by_group",
        "_count_max",
        "_is_slave",
        "_name",
        "_own",
        "_revive_topic",
        "change_count",
        "count",
        "pops",
        "pulled_to",
        "resets",
        "transactions",
    )

    def __init__(
        self,
        *,
        is_slave: bool = False,
        count_max: int = OFFSET_COUNT_MAX,
        cluster_name: str = "DefaultCluster",
    ) -> None:
        """What is more than `count_max` is refused by `check_room`."""
        self._revive_topic = revive_topic(cluster_name)
        self._is_slave = is_slave
        self._count_max = count_max
        # Of groups times topics times queues.
        self.count = 0
        # Of a slave: what was committed here and not at the master.
        self._own: set[_QueueOfGroup] = set()
        self._by_group: dict[str, dict[str, dict[int, int]]] = {}
        # What the next pull is answered with, by group, topic and queue.
        self.resets: Final[dict[tuple[str, str, int], int]] = {}
        # What a group pulls next, whatever it committed, by the same.
        self.pulled_to: Final[dict[tuple[str, str, int], int]] = {}
        self.change_count = 0
        self.transactions: Final = DurableState(TransactionProgress())
        self.transactions.on_change = self._take_transactions
        self.pops: Final = DurableState(PopProgress())
        self.pops.on_change = self._take_pops
        # No other table has it, nor this one after a restart.
        self._name = os.urandom(_NAME_SIZE).hex()

    @property
    def version(self) -> str:
        """The same again means that nothing has changed."""
        return f"{self._name}-{self.change_count}"

    def lead(self) -> None:
        """This is the table of a master from now on: all that it has is its own."""
        self._is_slave = False
        self._own.clear()

    @property
    def group_count(self) -> int:
        """How many groups have an offset."""
        return len(self._by_group)

    def knows(self, group: str) -> bool:
        return group in self._by_group

    def check_room(self, group: str, topic: str, queue_id: int) -> None:
        """Raises TableFull if this would be one more than there may be."""
        if not self._has_room(group, topic, queue_id):
            raise TableFull("offsets of groups in queues", self._count_max, "maxConsumerOffsets")

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        return self.queues(group, topic).get(queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Takes the offset as it is; whether it went back. Raises BadOffset."""
        if offset < 0 or queue_id < 0:
            raise BadOffset(topic, queue_id, offset)
        if self.resets and (group, topic, queue_id) in self.resets:
            return False
        if self._is_slave:
            self._own.add(_QueueOfGroup(group, topic, queue_id))
        return self._put(group, topic, queue_id, offset)

    def advance(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Takes the offset if it is beyond the known one. A slave gets it from its master.

        Without room nothing happens: the pull that brings it is worth more.
        """
        if self._is_slave:
            return
        known = self.queues(group, topic).get(queue_id, -1)
        if offset > known and queue_id >= 0 and self._has_room(group, topic, queue_id):
            self.commit(group, topic, queue_id, offset)

    def note_pulled(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        self.pulled_to[group, topic, queue_id] = next_offset

    def trim(self) -> None:
        """To be called every second: pulls write to `pulled_to` without a check.

        If that is too much, it starts again with what is pulled from now on.
        """
        if len(self.pulled_to) > PULLED_COUNT_MAX:
            self.pulled_to.clear()

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """How far a group has pulled, as far as known; never less than what it committed."""
        committed = self.queues(group, topic).get(queue_id, 0)
        return max(committed, self.pulled_to.get((group, topic, queue_id), 0))

    def cut_back(self, max_offset_of: Callable[[str, int], int]) -> None:
        """No group is further than its queue, which has lost its end: what is stored there next
        would never be consumed.
        """
        for topics in self._by_group.values():
            for topic, queues in topics.items():
                for queue_id, offset in queues.items():
                    max_offset = max_offset_of(topic, queue_id)
                    if offset > max_offset:
                        queues[queue_id] = max_offset
                        self.change_count += 1

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """What an operator wants; `take_reset` hands it to the next pull. Raises BadOffset."""
        if offset < 0 or queue_id < 0:
            raise BadOffset(topic, queue_id, offset)
        self.resets[_QueueOfGroup(group, topic, queue_id)] = offset
        self.pulled_to.pop((group, topic, queue_id), None)
        self._put(group, topic, queue_id, offset)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Where the puller of this queue has to resume instead, once."""
        if not self.resets:  # Nearly always, and every pull asks.
            return None
        return self.resets.pop(_QueueOfGroup(group, topic, queue_id), None)

    def queues(self, group: str, topic: str) -> Mapping[int, int]:
        """Queue id -> offset, as far as known."""
        topics = self._by_group.get(group)
        return _NO_QUEUES if topics is None else topics.get(topic, _NO_QUEUES)

    def topics_of(self, group: str) -> list[str]:
        return list(self._by_group.get(group, ()))

    def groups_of(self, topic: str) -> list[str]:
        return [group for group, topics in self._by_group.items() if topic in topics]

    def lowest(
        self, topic: str, min_offset_of: Callable[[int], int], ignored: Collection[str] = ()
    ) -> dict[int, int]:
        """Queue id -> the offset of the group that is furthest behind, but not out of the queue."""
        found: dict[int, int] = {}
        for group in self.groups_of(topic):
            if group in ignored:
                continue
            for queue_id, offset in self.queues(group, topic).items():
                if offset >= min_offset_of(queue_id):
                    found[queue_id] = min(offset, found.get(queue_id, offset))
        return found

    def clone(self, source: str, target: str, topic: str) -> None:
        """Group `target` resumes where `source` is; if that is unknown, nothing happens."""
        queues = self.queues(source, topic)
        if queues:
            topics = self._by_group.setdefault(target, {})
            self.count += len(queues) - len(topics.get(topic, ()))
            topics[topic] = dict(queues)
            self.change_count += 1

    def forget_group(self, group: str) -> None:
        if group == TRANSACTION_GROUP:
            self.transactions.forget()
        if group == REVIVE_GROUP:
            self.pops.forget()
        self._forget(lambda queue: queue[0] == group)
        topics = self._by_group.pop(group, None)
        if topics is not None:
            self.count -= sum(map(len, topics.values()))
            self.change_count += 1

    def forget_topic(self, topic: str) -> None:
        """A topic of the same name would start at 0: old offsets would skip its messages."""
        if topic in (HALF_TOPIC, OP_HALF_TOPIC):
            self.transactions.forget()
        if topic == self._revive_topic:
            self.pops.forget()
        self._forget(lambda queue: queue[1] == topic)
        for group in self.groups_of(topic):
            self.count -= len(self._by_group[group].pop(topic))
            self.change_count += 1

    def snapshot(self, log_end: int | None = None) -> ConsumerOffsetTable:
        """What slaves are sent. With `log_end`, what is true for a log that ends there."""
        table = {
            f"{topic}{_SEPARATOR}{group}": dict(queues)
            for group, topics in self._by_group.items()
            for topic, queues in topics.items()
        }
        if log_end is not None:
            progress = self.transactions.value_at(log_end)
            for key, offset in ((_HALF_KEY, progress.half_offset), (_OP_KEY, progress.op_offset)):
                if key in table:
                    table[key] = {HALF_QUEUE_ID: offset}
            if self._revive_key in table:
                table[self._revive_key] = dict(self.pops.value_at(log_end).offset_table)
        return ConsumerOffsetTable(offset_table=table)

    def follow(self, table: ConsumerOffsetTable) -> list[OwnOffset]:
        """Takes over what the master has; returns what it does not have, and has to be sent."""
        own = {queue: self.find(*queue) or 0 for queue in self._own}
        self.merge(self._without_progress(table))
        behind = []
        for queue, offset in own.items():
            # Not what is known here by now: what the master does not mention has not changed.
            of_group = table.offset_table.get(f"{queue.topic}{_SEPARATOR}{queue.group}", _NO_QUEUES)
            if of_group.get(queue.queue_id, -1) < offset:
                self._put(*queue, offset)
                behind.append(OwnOffset(*queue, offset))
            else:
                self._own.discard(queue)
        return behind

    def note_sent(self, own: OwnOffset) -> None:
        """The master has it now, and its table decides from now on."""
        self._own.discard(_QueueOfGroup(own.group, own.topic, own.queue_id))

    def merge(self, table: ConsumerOffsetTable) -> list[str]:
        """Takes over what is in it; returns the keys that no topic and group can have."""
        left_out = []
        for key, queues in table.offset_table.items():
            topic, _, group = key.partition(_SEPARATOR)
            if not (is_name(topic) and is_name(group)):
                left_out.append(key)
                continue
            for queue_id, offset in queues.items():
                # Apache keeps -1 for queues whose offset it does not know.
                if offset >= 0 and queue_id >= 0:
                    self._put(group, topic, queue_id, offset)
        return left_out

    def to_bytes(self) -> bytes:
        """The content of `consumerOffset.json`."""
        return write_body(
            replace(
                self.snapshot(),
                pop_progress=list(self.pops.known),
                transaction_progress=list(self.transactions.known),
            )
        )

    def load(self, data: bytes) -> list[str]:
        """Takes over the content of `consumerOffset.json`; returns the keys that were left out.

        5.x keeps offsets of broadcasts and of pulls there too, which we leave out. Raises
        BadBody, and then nothing has changed.
        """
        change_count = self.change_count
        table = read_body(ConsumerOffsetTable, data)
        left_out = self.merge(table)
        self.transactions.adopt(_known_progress(table))
        self.pops.adopt(self._known_pops(table))
        self.change_count = change_count  # What was read from the file is in the file.
        return left_out

    def _take_transactions(self) -> None:
        progress = self.transactions.value
        self.change_count += 1
        for topic, offset in (
            (HALF_TOPIC, progress.half_offset),
            (OP_HALF_TOPIC, progress.op_offset),
        ):
            # Where there are no transactions, the table stays without them.
            if offset != (self.find(TRANSACTION_GROUP, topic, HALF_QUEUE_ID) or 0):
                self._put(TRANSACTION_GROUP, topic, HALF_QUEUE_ID, offset)

    @property
    def _revive_key(self) -> str:
        return f"{self._revive_topic}{_SEPARATOR}{REVIVE_GROUP}"

    def pop_progress_of(self, table: ConsumerOffsetTable) -> PopProgress:
        """That of the journal of pops, without the log for which it is true."""
        return PopProgress(offset_table=table.offset_table.get(self._revive_key, {}))

    def _take_pops(self) -> None:
        self.change_count += 1
        for queue_id, offset in self.pops.value.offset_table.items():
            self._put(REVIVE_GROUP, self._revive_topic, queue_id, offset)

    def _known_pops(self, table: ConsumerOffsetTable) -> list[PopProgress]:
        """What another broker has changed since it was written here is its own."""
        found = self.pop_progress_of(table)
        known = table.pop_progress
        if known and replace(known[-1], true_at=None) == found:
            return known
        return [found] if found.offset_table else []

    def _without_progress(self, table: ConsumerOffsetTable) -> ConsumerOffsetTable:
        progress = (_HALF_KEY, _OP_KEY, self._revive_key)
        offsets = {key: queues for key, queues in table.offset_table.items() if key not in progress}
        return replace(table, offset_table=offsets)

    def _put(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        queues = self._by_group.setdefault(group, {}).setdefault(topic, {})
        known = queues.get(queue_id)
        if offset == known:
            return False
        queues[queue_id] = offset
        self.count += known is None
        self.change_count += 1
        return known is not None and offset < known

    def _has_room(self, group: str, topic: str, queue_id: int) -> bool:
        return self.count < self._count_max or self.find(group, topic, queue_id) is not None

    def _forget(self, is_gone: Callable[[tuple[str, str, int]], bool]) -> None:
        for queue in [queue for queue in self.resets if is_gone(queue)]:
            del self.resets[queue]
        self._own = {queue for queue in self._own if not is_gone(queue)}
        for place in [place for place in self.pulled_to if is_gone(place)]:
            del self.pulled_to[place]


def transaction_progress_of(table: ConsumerOffsetTable) -> TransactionProgress:
    """The transaction check's progress in a table, without the log for which it is true."""
    half_queues, op_queues = (
        table.offset_table.get(key, _NO_QUEUES) for key in (_HALF_KEY, _OP_KEY)
    )
    return TransactionProgress(
        half_offset=max(0, half_queues.get(HALF_QUEUE_ID, 0)),
        op_offset=max(0, op_queues.get(HALF_QUEUE_ID, 0)),
    )


def _known_progress(table: ConsumerOffsetTable) -> list[TransactionProgress]:
    """What another broker has changed since it was written here is its own, and of unknown end."""
    found = transaction_progress_of(table)
    known = table.transaction_progress
    if known and replace(known[-1], true_at=None) == found:
        return known
    return [] if found == TransactionProgress() else [found]
