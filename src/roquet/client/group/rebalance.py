"""Which queues of its topics a member of a group should read now.

Every member computes the same shares from the same facts: the queues of a topic and the members of
the group. While these facts are not the same everywhere, a queue may have two readers or none for
a moment; brokers tell all members when somebody comes or goes, and they compute anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError, RequestRefused
from roquet.client.group.allocation import Allocation
from roquet.client.group.readiness import Readiness, topic_missing
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import RETRY_PREFIX

log = logging.getLogger(__name__)

# When something could not be found out or taken over: first this, and each time twice as long.
_AGAIN_S: Final = 1.0

# Topic, all of its queues, and those that this member should read. False if some of them could
# not be taken over yet.
OnShare = Callable[[str, Sequence[QueueRef], Sequence[QueueRef]], Awaitable[bool | None]]


@final
class Rebalance:
    """Tells `on_share` the share of each topic, again and again: the share may be the same.

    Without an `allocation` the member reads everything, as in broadcasting. `on_stranger` is called
    when a broker does not know the member, which should then register.
    """

    def __init__(
        self,
        brokers: Brokers,
        routes: RouteBook,
        member: tuple[str, str],
        allocation: Allocation | None,
        topics: Callable[[], Iterable[str]],
        on_share: OnShare,
        *,
        on_stranger: Callable[[], None] | None = None,
        readiness: Readiness,
    ) -> None:
        self._brokers = brokers
        self._routes = routes
        self._group, self._client_id = member
        self._allocation = allocation
        self._topics = topics
        self._on_share = on_share
        self._on_stranger = on_stranger
        self._readiness = readiness
        self._is_wanted = asyncio.Event()
        # Topics that were not there when they were looked for: once, and the last time.
        self.missing: set[str] = set()
        self.missing_now: set[str] = set()
        # Set when each topic was looked at once, whatever came of it.
        self.has_begun = asyncio.Event()
        # Set when all that a program wants was found at the same time.
        self.has_all = asyncio.Event()

    def wake(self) -> None:
        """Somebody came or went, or this member wants other topics."""
        self._is_wanted.set()

    async def keep_balanced(self, period_s: float) -> None:
        """For ever: when woken and after each period, sooner when something was not known."""
        again_s = _AGAIN_S
        while True:
            self._is_wanted.clear()
            if await self.balance():
                again_s, pause_s = _AGAIN_S, period_s
            else:
                again_s, pause_s = min(2 * again_s, period_s), min(again_s, period_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._is_wanted.wait()
            except TimeoutError:
                pass
            else:
                again_s = _AGAIN_S

    async def balance(self) -> bool:
        """One round; False when a topic has to be looked at again soon."""
        incomplete = []
        for topic in tuple(self._topics()):
            share = await self._found_share(topic)
            if share is None or await self._on_share(topic, *share) is False:
                incomplete.append(topic)
        self.has_begun.set()
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
        if self._client_id not in members and self._on_stranger is not None:
            # Others share without it; it keeps what it has until they know better.
            self._on_stranger()
            return None
        return queues, share_of(self._allocation, self._client_id, queues, members)

    async def _members(self, topic: str) -> Sequence[str]:
        try:
            return sorted(await self._brokers.members(self._group, topic))
        except RequestRefused as error:
            # So says a broker that has never heard of the group.
            log.info("the members of %s are not known: %s", self._group, error)
            return ()


def share_of(
    allocation: Allocation,
    client_id: str,
    queues: Sequence[QueueRef],
    members: Collection[str],
) -> Sequence[QueueRef]:
    """Nothing for a client that is not known as a member yet: the others share without it."""
    if not queues or client_id not in members:
        return ()
    return allocation(client_id, queues, list(members))
