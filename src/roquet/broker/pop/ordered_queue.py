"""One queue of a consumer group that pops in order: what is out of it, and what may come next.

Order is kept within a message group, which the property __SHARDINGKEY names; messages without it
are one group, too. A message group is blocked while one of its messages is out and its time is not
over. Others of the same queue go on. Nothing here reads or writes: `journal` notes every change,
and builds `out` and `done` again from its notes. Message groups are learned by reading the queue.

    offset    17      18      19      20      21      22      23
              out     done    waits   done    waits   out     not seen yet
              ^ low: everything before it is done             ^ seen_to
"""

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush, merge
from itertools import chain, islice
from typing import Final, final

from roquet.broker.pop.in_flight import Place, QueueOfGroup

# How far after the first message that is not done others are given out.
WINDOW_COUNT_MAX: Final = 4_096

_NO_PLACE: Final = Place(-1, -1)
# Fewer entries than this are not worth to be gone through.
_TRIM_COUNT_MIN: Final = 1024


@final
class Outing:
    """One message that is out, or whose time is over."""

    __slots__ = ("attempt_id", "due_ms", "is_suspended", "pop_time_ms", "times")

    def __init__(
        self,
        pop_time_ms: int,
        due_ms: int,
        times: int = 0,
        attempt_id: str = "",
        *,
        is_suspended: bool = False,
    ) -> None:
        self.pop_time_ms = pop_time_ms
        # By a clock that is not set; see `PopJournal.steady_ms`.
        self.due_ms = due_ms
        # How often it was out before.
        self.times = times
        self.attempt_id = attempt_id
        # Whether a redelivery is not counted as one more attempt.
        self.is_suspended = is_suspended

    @property
    def times_next(self) -> int:
        return self.times + (0 if self.is_suspended else 1)


@final
class MessageGroup:
    __slots__ = ("key", "out", "waiting")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.out: set[int] = set()
        # All of them after those that are out.
        self.waiting: deque[int] = deque()


@final
class OrderedQueue:
    """Belongs to the event loop."""

    def __init__(self, queue: QueueOfGroup, low: int) -> None:
        self.queue = queue
        self.low = low
        self.seen_to = low
        self.out: dict[int, Outing] = {}
        self.done: set[int] = set()
        # Not wanted by a filter, or gone. The journal does not know of them.
        self._skipped: set[int] = set()
        # Of messages that were seen and are not done.
        self._group_of: dict[int, MessageGroup] = {}
        self._groups: dict[bytes, MessageGroup] = {}
        # Message groups that have something to give.
        self._ready: dict[MessageGroup, None] = {}
        # The oldest record of the journal that is needed to know all this.
        self.place = _NO_PLACE

    @property
    def is_open(self) -> bool:
        """Whether the journal has to keep something of it."""
        return bool(self.out or self.done)

    @property
    def is_known(self) -> bool:
        """Whether the message group of everything that is out has been seen."""
        return not self.out or max(self.out) < self.seen_to

    @property
    def room(self) -> int:
        """How many more offsets may be seen."""
        return max(0, self.low + WINDOW_COUNT_MAX - self.seen_to)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def see(self, offset: int, key: bytes, now_ms: int) -> None:
        """The message at `offset`, the next one that is wanted, is of this message group."""
        self.skip_to(offset, now_ms)
        self.seen_to = offset + 1
        if offset in self.done:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = MessageGroup(key)
        self._group_of[offset] = group
        if offset in self.out:
            group.out.add(offset)
        else:
            group.waiting.append(offset)
        self._refresh(group, now_ms)

    def skip_to(self, offset: int, now_ms: int) -> None:
        """What was not seen before `offset` is not wanted, or gone."""
        self.skip(range(self.seen_to, offset), now_ms)
        self.seen_to = max(self.seen_to, offset)

    def skip(self, offsets: Iterable[int], now_ms: int) -> None:
        """These are not wanted, or gone."""
        skipped = [each for each in offsets if each not in self.done]
        groups = self._leave(skipped)
        self._skipped.update(skipped)
        self._move_low()
        for group in groups:
            self._refresh(group, now_ms)

    def next_ready(self, count_max: int) -> list[int]:
        """The first that may go out, in order; empty if there is none. Until they are out, or
        `put_back`, nothing of their message groups is named again."""
        ready = merge(*(chain(sorted(group.out), group.waiting) for group in self._ready))
        offsets = list(islice(ready, count_max))
        for offset in offsets:
            self._ready.pop(self._group_of[offset], None)
        return offsets

    def put_back(self, offsets: Iterable[int], now_ms: int) -> None:
        """These were named. What did not go out may be named again."""
        for offset in offsets:
            if offset in self._group_of:
                self._refresh(self._group_of[offset], now_ms)

    def of_attempt(self, attempt_id: str) -> list[int]:
        """What the same attempt has got already."""
        if not attempt_id:
            return []
        return sorted(
            offset for offset, outing in self.out.items() if outing.attempt_id == attempt_id
        )

    def go_out(self, offset: int, outing: Outing) -> None:
        if offset < self.low or offset in self.done:
            return
        self.out[offset] = outing
        group = self._group_of.get(offset)
        if group is not None:
            if offset not in group.out:
                group.waiting.remove(offset)
                group.out.add(offset)
            self._ready.pop(group, None)

    def finish(self, offsets: Iterable[int], now_ms: int) -> None:
        """These are done: acknowledged, or dead letters."""
        finished = [each for each in offsets if each >= self.low]
        groups = self._leave(finished)
        self.done.update(finished)
        self._move_low()
        for group in groups:
            self._refresh(group, now_ms)

    def is_released(self, offset: int, due_ms: int, now_ms: int) -> bool:
        """The time of this message was over at `due_ms`; whether its message group is free now."""
        outing, group = self.out.get(offset), self._group_of.get(offset)
        if outing is None or outing.due_ms != due_ms:
            return False
        if group is None:
            return True  # Not seen since the start: a pop has to look.
        self._refresh(group, now_ms)
        return group in self._ready

    def advance_to(self, offset: int) -> None:
        """The group goes on there: what is before it does not matter any more."""
        if offset <= self.low:
            return
        self.low = self.seen_to = offset
        self.out = {each: outing for each, outing in self.out.items() if each >= offset}
        self.done = {each for each in self.done if each >= offset}
        self._skipped.clear()
        # What was seen is seen again: this is rare.
        self._group_of.clear()
        self._groups.clear()
        self._ready.clear()
        self._move_low()

    def clear(self) -> None:
        """The journal need not keep anything of it."""
        self.out.clear()
        self.done.clear()

    def _leave(self, offsets: Iterable[int]) -> set[MessageGroup]:
        """These neither wait nor are out any more; the message groups that still have others."""
        touched: set[MessageGroup] = set()
        for offset in offsets:
            self.out.pop(offset, None)
            group = self._group_of.pop(offset, None)
            if group is None:
                continue
            if offset in group.out:
                group.out.discard(offset)
            else:
                group.waiting.remove(offset)
            touched.add(group)
            if not group.out and not group.waiting:
                touched.discard(group)
                del self._groups[group.key]
                self._ready.pop(group, None)
        return touched

    def _move_low(self) -> None:
        while self.low in self.done or self.low in self._skipped:
            self.done.discard(self.low)
            self._skipped.discard(self.low)
            self.low += 1
        self.seen_to = max(self.seen_to, self.low)

    def _refresh(self, group: MessageGroup, now_ms: int) -> None:
        is_blocked = any(self.out[offset].due_ms > now_ms for offset in group.out)
        if is_blocked or not (group.out or group.waiting):
            self._ready.pop(group, None)
        else:
            self._ready[group] = None


@final
class OrderedQueues:
    """All of a broker, and when the time of each message is over. Belongs to the event loop."""

    def __init__(self) -> None:
        self._by_queue: dict[QueueOfGroup, OrderedQueue] = {}
        # The number keeps queues from being compared.
        self._due: list[tuple[int, int, int, OrderedQueue]] = []
        self._number = 0
        self._trim_count = _TRIM_COUNT_MIN

    def find(self, queue: QueueOfGroup) -> OrderedQueue | None:
        return self._by_queue.get(queue)

    def at(self, queue: QueueOfGroup, low: int) -> OrderedQueue:
        """The one whose group is at `low`: if it was behind, it moves on; a group that was sent
        back starts again."""
        found = self._by_queue.get(queue)
        if found is None or low < found.low:
            self.forget(queue)
            found = self._by_queue[queue] = OrderedQueue(queue, low)
        found.advance_to(low)
        return found

    def forget(self, queue: QueueOfGroup) -> None:
        found = self._by_queue.pop(queue, None)
        if found is not None:
            found.clear()

    def queues(self) -> list[OrderedQueue]:
        return list(self._by_queue.values())

    @property
    def out_count(self) -> int:
        return sum(len(queue.out) for queue in self._by_queue.values())

    def go_out(self, ordered: OrderedQueue, offset: int, outing: Outing) -> None:
        ordered.go_out(offset, outing)
        self._number += 1
        heappush(self._due, (outing.due_ms, self._number, offset, ordered))
        if len(self._due) > self._trim_count:
            self._due = [entry for entry in self._due if _is_current(entry)]
            heapify(self._due)
            self._trim_count = max(_TRIM_COUNT_MIN, 2 * len(self._due))

    @property
    def next_due_ms(self) -> int | None:
        """None if nothing is out whose time is not over."""
        while self._due and not _is_current(self._due[0]):
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def release_due(self, now_ms: int) -> set[QueueOfGroup]:
        """Those from which something may be popped again, because its time is over."""
        released: set[QueueOfGroup] = set()
        while self._due and self._due[0][0] <= now_ms:
            due_ms, _, offset, ordered = heappop(self._due)
            if ordered.is_released(offset, due_ms, now_ms):
                released.add(ordered.queue)
        return released


def _is_current(entry: tuple[int, int, int, OrderedQueue]) -> bool:
    due_ms, _, offset, ordered = entry
    outing = ordered.out.get(offset)
    return outing is not None and outing.due_ms == due_ms
