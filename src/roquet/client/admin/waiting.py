"""Messages that are stored and cannot be consumed yet: retries, delayed and half messages, and
those that are in flight.

A message that a listener failed on waits at its broker for its next try; then it is ready in the
retry topic of the group, and part of its lag. Only Roquet brokers report what waits; how much is
ready is known of all brokers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.servers import AdminServers, Master
from roquet.client.arguments import moment_of
from roquet.client.cluster.brokers import reply_body
from roquet.client.errors import RequestRefused
from roquet.protocol.bodies import brokers as bodies
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import NoFields
from roquet.protocol.names import RETRY_PREFIX

# Of `WaitingMessages.due_counts`.
DUE_BOUNDS: Final = tuple(timedelta(seconds=each) for each in bodies.DUE_BOUNDS_S)


@dataclass(frozen=True, slots=True)
class DelayedMessages:
    """Messages that wait for their time, and when the next is due.

    Of messages with a delivery time of their own, brokers do not report when the next is due.
    """

    count: int = 0
    next_due: datetime | None = None


@dataclass(frozen=True, slots=True)
class WaitingMessages:
    """What waits at the masters of a cluster."""

    # By group: messages that wait for their next try.
    retries: Mapping[str, DelayedMessages] = field(default_factory=dict)
    # By topic.
    delayed: Mapping[str, DelayedMessages] = field(default_factory=dict)
    # How many of both are due within each of DUE_BOUNDS and not before, and how many later; empty
    # if brokers do not report it.
    due_counts: tuple[int, ...] = ()
    # By topic: messages of transactions that are neither committed nor rolled back.
    halves: Mapping[str, int] = field(default_factory=dict)
    # By group: popped messages that are neither acknowledged nor redelivered; pops that wait.
    in_flight: Mapping[str, DelayedMessages] = field(default_factory=dict)
    waiting_pops: Mapping[str, int] = field(default_factory=dict)
    # Half messages whose topic was not looked up, because there are too many.
    other_half_count: int = 0
    # Masters that do not report it: Apache's, and those that refuse.
    unknown_at: tuple[str, ...] = ()
    # Masters that started a moment ago and have not counted all of it.
    uncounted_at: tuple[str, ...] = ()

    def retries_of(self, group: str) -> DelayedMessages | None:
        """None if it is unknown: some brokers do not report it, and the others have none."""
        return self._found(self.retries.get(group))

    def delayed_of(self, topic: str) -> DelayedMessages | None:
        return self._found(self.delayed.get(topic))

    def halves_of(self, topic: str) -> int | None:
        found = self.halves.get(topic)
        return found or (None if self.unknown_at else 0)

    def _found(self, found: DelayedMessages | None) -> DelayedMessages | None:
        return found or (None if self.unknown_at else DelayedMessages())


async def waiting_messages(servers: AdminServers) -> WaitingMessages:
    async def waiting(master: Master) -> bodies.WaitingMessages | None:
        code = RequestCode.GET_WAITING_MESSAGES
        try:
            reply = await servers.brokers.ask(master.address, code, NoFields())
        except RequestRefused:
            return None
        return reply_body(bodies.WaitingMessages, reply, master.broker_name)

    answers = await servers.ask_each(await servers.replicas(), waiting)
    known = {name: each for name, each in answers.items() if each is not None}
    delayed = _merged(servers, (each.delayed for each in known.values()))
    pops: Counter[str] = Counter()
    for each in known.values():
        pops.update({servers.user_name(name): n for name, n in each.waiting_pops.items()})
    halves: Counter[str] = Counter()
    for each in known.values():
        halves.update({servers.user_name(name): n for name, n in each.half_topics.items()})
    return WaitingMessages(
        retries={
            topic.removeprefix(RETRY_PREFIX): each
            for topic, each in delayed.items()
            if topic.startswith(RETRY_PREFIX)
        },
        delayed={
            topic: each for topic, each in delayed.items() if not topic.startswith(RETRY_PREFIX)
        },
        due_counts=_summed(each.due_counts for each in known.values()),
        halves=halves,
        in_flight=_merged(servers, (each.in_flight for each in known.values())),
        waiting_pops=pops,
        other_half_count=max(0, sum(each.half_count for each in known.values()) - halves.total()),
        unknown_at=tuple(sorted(answers.keys() - known.keys())),
        uncounted_at=tuple(sorted(name for name, each in known.items() if not each.is_counted)),
    )


def _summed(parts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Of brokers that report as many counts as there are bounds."""
    whole = [each for each in parts if len(each) == len(DUE_BOUNDS) + 1]
    return tuple(sum(each) for each in zip(*whole, strict=True))


def _merged(
    servers: AdminServers, answers: Iterable[Mapping[str, bodies.DelayedMessages]]
) -> dict[str, DelayedMessages]:
    """By the name of a topic or group."""
    merged: dict[str, DelayedMessages] = {}
    for answer in answers:
        for wire_name, each in answer.items():
            name = servers.user_name(wire_name)
            before = merged.get(name, DelayedMessages())
            times = [before.next_due, moment_of(each.next_due_ms or 0)]
            merged[name] = DelayedMessages(
                before.count + each.count,
                min((time for time in times if time is not None), default=None),
            )
    return merged
