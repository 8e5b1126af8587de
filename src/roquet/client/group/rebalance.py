"""Which queues of its topics a member of a group should read now.

Every member computes the same shares from the same facts: the queues of a topic and the members of
the group. While these facts are not the same everywhere, a queue may have two readers or none for
a moment; brokers notify all members when one joins or leaves, and they compute the shares again.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Protocol, final

from roquet.backoff import Backoff
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError, RequestRefused
from roquet.client.group.allocation import Allocation
from roquet.client.group.readiness import Readiness, topic_missing
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import RETRY_PREFIX

log = logging.getLogger(__name__)

# The first pause after a round that was incomplete.
_RETRY_S: Final = 1.0


class QueueOwner(Protocol):
    """What a push or a pull consumer does with its share of the group's queues."""

    def topics(self) -> Iterable[str]:
        """Those it wants a share of."""

    async def registered(self) -> None:
        """Brokers know its subscriptions now."""

    async def share(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> bool | None:
        """Of all queues of a topic it reads these from now on; False if some cannot be had yet.

        Called in every round: the share may be the same.
        """

    async def until_started(self) -> None:
        """Returns when the first queues are read."""

    async def save(self) -> None:
        """Stores its offsets."""


@final
class Rebalance:
    """Gives a queue owner its share of each topic, again and again.

    Without an `allocation` the member reads everything, as in broadcasting. `on_unknown` is called
    when a broker does not know the member, which should then register.
    """

    def __init__(
        self,
        brokers: Brokers,
        routes: RouteBook,
        member: tuple[str, str],
        allocation: Allocation | None,
        readiness: Readiness,
        *,
        on_unknown: Callable[[], None] | None = None,
    ) -> None:
        self._brokers = brokers
        self._routes = routes
        self._group, self._client_id = member
        self._allocation = allocation
        self._on_unknown = on_unknown
        self._readiness = readiness
        self._is_wanted = asyncio.Event()
        # Topics that did not exist in some round, and in the last one.
        self.missing: set[str] = set()
        self.missing_now: set[str] = set()
        # Set after the first round, whatever came of it.
        self.has_started = asyncio.Event()
        # Set after a round that found all topics of the program.
        self.has_all = asyncio.Event()

    def wake(self) -> None:
        """A member joined or left, or this one wants other topics."""
        self._is_wanted.set()

    async def keep_balanced(self, owner: QueueOwner, period_s: float) -> None:
        """Runs for ever: when woken and after each period, sooner after an incomplete round."""
        backoff = Backoff(min(_RETRY_S, period_s), period_s)
        while True:
            self._is_wanted.clear()
            if await self.balance(owner):
                backoff.reset()
                pause_s = period_s
            else:
                pause_s = backoff.next_s()
            try:
                async with asyncio.timeout(pause_s):
                    await self._is_wanted.wait()
            except TimeoutError:
                pass
            else:
                backoff.reset()

    async def balance(self, owner: QueueOwner) -> bool:
        """One round; False when a topic has to be balanced again soon."""
        incomplete = []
        for topic in tuple(owner.topics()):
            share = await self._found_share(topic)
            if share is None or await owner.share(topic, *share) is False:
                incomplete.append(topic)
        self.has_started.set()
        # Not every group has retries.
        if all(topic.startswith(RETRY_PREFIX) for topic in incomplete):
            self.has_all.set()
        return not incomplete

    async def _found_share(
        self, topic: str
    ) -> tuple[Sequence[QueueRef], Sequence[QueueRef]] | None:
        try:
            share = await self._share(topic)
        except ClientError as error:
            self._readiness.report(topic, error)
            return None
        if topic in self.missing_now and not topic.startswith(RETRY_PREFIX):
            self._readiness.report(topic, topic_missing(topic))
        else:
            self._readiness.clear(topic)
        return share

    async def _share(self, topic: str) -> tuple[Sequence[QueueRef], Sequence[QueueRef]] | None:
        route = await self._routes.existing(topic)
        if route is None:
            self.missing.add(topic)
            self.missing_now.add(topic)
            return None
        self.missing_now.discard(topic)
        queues = sorted(route.readable)
        if self._allocation is None:
            return queues, queues
        members = await self._members(topic)
        if self._client_id not in members and self._on_unknown is not None:
            # Others share without it; it keeps what it has until they know it.
            self._on_unknown()
            return None
        return queues, share_of(self._allocation, self._client_id, queues, members)

    async def _members(self, topic: str) -> Sequence[str]:
        try:
            return sorted(await self._brokers.members(self._group, topic))
        except RequestRefused as error:
            # A broker that does not know the group answers so.
            log.info("the members of group %s are not known: %s", self._group, error)
            return ()


def share_of(
    allocation: Allocation,
    client_id: str,
    queues: Sequence[QueueRef],
    members: Collection[str],
) -> Sequence[QueueRef]:
    """Nothing for a client that brokers do not know as a member: the others share without it."""
    if not queues or client_id not in members:
        return ()
    return allocation(client_id, queues, list(members))
