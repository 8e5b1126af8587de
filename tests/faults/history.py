"""What was acknowledged to clients and what they got, and whether that is consistent.

Whoever sends notes what it tries and what it hears; whoever reads notes what it gets. A message is
known by its body, of which there is one in the world. What must hold of all that, whatever was done
to the servers meanwhile:

    I1  no acknowledged message is lost
    I2  nothing is delivered that was never sent, or was thrown away by its sender
    I3  in a queue the order of offsets is the real-time order of acknowledged sends, and no
        client that reads in order passes one over
    I4  an offset names one message for ever, and there are no holes
    I5  committed offsets never go back
    I6  every acknowledged message is delivered at least once, and none before its time

A send ends in one of three ways: acknowledged, failed, or unknown; what is unknown may be there or
not, and even what failed may be there when its sender tried twice.
"""

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

Queue = tuple[str, int]


class Acknowledged(NamedTuple):
    """A send that was answered, and the time it took."""

    queue: Queue
    offset: int
    body: bytes
    begun_s: float
    ended_s: float
    # Which broker has it, and where in its log.
    offset_id: str = ""


class Delivery(NamedTuple):
    body: bytes
    queue: Queue
    offset: int


@dataclass
class History:
    """All of one run. `violations` is asked at its end, when everything was read once more."""

    attempted: set[bytes] = field(default_factory=set)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    # Acknowledged, but by another place than the one where they are read: delays, transactions. The
    # value is the time before which it must not be delivered.
    promised: dict[bytes, float] = field(default_factory=dict)
    rolled_back: set[bytes] = field(default_factory=set)
    failed_count: int = 0
    unknown_count: int = 0
    # By group.
    delivered: defaultdict[str, Counter[bytes]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    in_order: defaultdict[Queue, list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    committed: defaultdict[Queue, list[int]] = field(default_factory=lambda: defaultdict(list))
    early: list[str] = field(default_factory=list)
    # What is promised for a time before it may come at any time; see `wait_by_the_wall`.
    kept_from_s: float = -math.inf
    # Two of one queue at the same time, where order is promised.
    at_once: list[str] = field(default_factory=list)
    # What every queue has at the end, by offset.
    found: dict[Queue, dict[int, bytes]] = field(default_factory=dict)

    @property
    def due(self) -> Iterator[bytes]:
        """What has to be delivered."""
        yield from (each.body for each in self.acknowledged)
        yield from self.promised

    @property
    def owed_count(self) -> int:
        return len(self.acknowledged) + len(self.promised)

    def deliver(self, group: str, delivery: Delivery, now_s: float) -> None:
        self.delivered[group][delivery.body] += 1
        due_s = self.promised.get(delivery.body, now_s)
        if self.kept_from_s <= due_s and now_s < due_s:
            self.early.append(f"{delivery.body!r} came {due_s - now_s:.3f} s early")

    def wait_by_the_wall(self, due_before_s: float) -> None:
        """Of messages that are due before then, it is no longer promised that they wait so long.

        A broker knows of a clock that was set only as long as it runs: what was accepted before
        that goes by the clock on the wall after the next start, and may come early.
        """
        self.kept_from_s = max(self.kept_from_s, due_before_s)

    def deliver_in_order(self, delivery: Delivery) -> None:
        self.in_order[delivery.queue].append(delivery)

    def undelivered(self) -> list[bytes]:
        """What some group has still to get."""
        return [body for got in self.delivered.values() for body in self.due if body not in got]

    def duplicate_count(self) -> int:
        return sum(got.total() - len(got) for got in self.delivered.values())

    def violations(self) -> list[str]:
        return [
            *self._lost(),
            *self._strangers(),
            *self._out_of_order(),
            *(f"I3: {each}" for each in self.at_once),
            *self._ambiguous(),
            *self._committed_backwards(),
            *(f"I6: {body!r} was never delivered" for body in self.undelivered()),
            *(f"I6: {each}" for each in self.early),
        ]

    def _lost(self) -> Iterator[str]:
        for each in self.acknowledged:
            found = self.found.get(each.queue, {}).get(each.offset)
            if found is None:
                yield f"I1: {each.body!r} is lost at {each.queue} {each.offset}"
            elif found != each.body:
                yield f"I4: {each.queue} {each.offset} was {each.body!r} and is {found!r}"

    def _strangers(self) -> Iterator[str]:
        read = {body for bodies in self.found.values() for body in bodies.values()}
        for got in (read, *self.delivered.values()):
            yield from (
                f"I2: {body!r} was never sent" for body in got if body not in self.attempted
            )
            yield from (f"I2: {body!r} was rolled back" for body in self.rolled_back if body in got)

    def _out_of_order(self) -> Iterator[str]:
        by_queue = defaultdict(list)
        for each in self.acknowledged:
            by_queue[each.queue].append(each)
        for sends in by_queue.values():
            yield from _against_time(sends)
        for queue, deliveries in self.in_order.items():
            highest = -1
            for delivery in deliveries:
                if delivery.offset > highest + 1:
                    yield f"I3: {queue} went from {highest} to {delivery.offset}"
                highest = max(highest, delivery.offset)

    def _ambiguous(self) -> Iterator[str]:
        named: dict[tuple[Queue, int], bytes] = {}
        seen: list[Acknowledged | Delivery] = [*self.acknowledged]
        for deliveries in self.in_order.values():
            seen += deliveries
        for each in seen:
            other = named.setdefault((each.queue, each.offset), each.body)
            if other != each.body:
                yield f"I4: {each.queue} {each.offset} is {other!r} and {each.body!r}"
        for queue, bodies in self.found.items():
            for low, high in pairwise(sorted(bodies)):
                if high != low + 1:
                    yield f"I4: {queue} has nothing between {low} and {high}"

    def _committed_backwards(self) -> Iterator[str]:
        for queue, offsets in self.committed.items():
            for before, after in pairwise(offsets):
                if after < before:
                    yield f"I5: {queue} was committed to {before}, then to {after}"


def _against_time(sends: list[Acknowledged]) -> Iterator[str]:
    """Of two sends, the one that was over before the other began has the smaller offset."""
    by_end = sorted(sends, key=lambda each: each.ended_s)
    ends = [each.ended_s for each in by_end]
    # The highest offset of all that were over by then.
    highest: list[int] = []
    for each in by_end:
        highest.append(max(each.offset, highest[-1] if highest else -1))
    for each in sends:
        over = bisect_left(ends, each.begun_s)
        if over and highest[over - 1] >= each.offset:
            yield f"I3: {each.body!r} got {each.offset}, after {highest[over - 1]} was acknowledged"
