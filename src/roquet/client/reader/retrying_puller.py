"""Pulls that are retried: brokers restart, connections break, and reading continues."""

import asyncio
import logging
from enum import Enum, auto
from typing import Final, final

from roquet.backoff import Backoff
from roquet.client.cluster.pulling import PulledRecords, Puller, PullOrder, PullStatus
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)

log = logging.getLogger(__name__)

_PAUSE_S_MIN: Final = 0.05
_PAUSE_S_MAX: Final = 2.0


class PullOutcome(Enum):
    GOES_ON = auto()  # continue at `next_offset`
    GONE = auto()  # the offset is no longer stored
    NOT_NOW = auto()  # it is stored, maybe on another replica; retry


@final
class RetryingPuller:
    def __init__(self, puller: Puller, routes: RouteBook, patience_s: float) -> None:
        self._puller = puller
        self._routes = routes
        self._patience_s = patience_s

    async def pull(
        self, order: PullOrder, *, is_filtered: bool
    ) -> tuple[PullOutcome, PulledRecords]:
        """A reply that continues, or that offsets are gone.

        Raises RequestRefused, or Unreachable without a reply for `patience_s`.
        """
        loop = asyncio.get_running_loop()
        deadline_s: float | None = None
        backoff = Backoff(_PAUSE_S_MIN, _PAUSE_S_MAX)
        while True:
            try:
                reply = await self._puller.pull_records(order)
                outcome = outcome_of_pull(reply, order.offset, is_filtered=is_filtered)
                if outcome is not PullOutcome.NOT_NOW:
                    return outcome, reply
                error: ClientError = Unreachable(
                    order.queue.broker_name,
                    f"it does not return the message at offset {order.offset}",
                )
            except RequestRefused as refused:
                if not refused.is_busy:
                    raise
                error = refused
            except Unreachable as unreachable:
                error = unreachable
            if deadline_s is None:
                log.info("pull of %s failed, retrying: %s", order.queue, error)
                deadline_s = loop.time() + self._patience_s
            pause_s = backoff.next_s()
            if loop.time() + pause_s >= deadline_s:
                raise error
            await asyncio.sleep(pause_s)
            await self._renew_route(order.queue.topic)

    async def _renew_route(self, topic: str) -> None:
        """The broker may have moved, or only a slave of it may be left."""
        try:
            await self._routes.newest(topic)
        except (NoNameServer, TopicNotFound) as error:
            log.debug("keeping the old route: %s", error)


def outcome_of_pull(reply: PulledRecords, offset: int, *, is_filtered: bool) -> PullOutcome:
    """Of a pull from `offset` on."""
    goes_on = reply.next_offset > offset
    match reply.status:
        case PullStatus.FOUND:
            return PullOutcome.GOES_ON if goes_on else PullOutcome.NOT_NOW
        case PullStatus.NOTHING_MATCHED:
            if not goes_on:
                return PullOutcome.NOT_NOW  # of a slave, for what it does not have yet
            # Without a filter everything matches, unless it is being removed right now.
            return PullOutcome.GOES_ON if is_filtered else PullOutcome.GONE
        case PullStatus.NOTHING_NEW:
            # The queue ends there, or its file was deleted.
            is_gone = goes_on or reply.max_offset <= offset
        case PullStatus.OUT_OF_RANGE:
            # Inside the range it is an operator's reset of the group, which is sent once.
            is_gone = not reply.min_offset <= offset < reply.max_offset
    return PullOutcome.GONE if is_gone and reply.is_newest else PullOutcome.NOT_NOW


def after_gap(reply: PulledRecords, offset: int, end: int) -> int:
    """The next stored offset when `offset` is gone; `end` if there is none."""
    if offset < reply.min_offset:
        return min(reply.min_offset, end)
    return min(reply.next_offset, end) if reply.next_offset > offset else end
