"""A pull that takes its time: brokers restart, connections break, and reading goes on."""

import asyncio
import logging
from typing import Final, final

from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.group.pulling import PulledRecords, Puller, PullOrder
from roquet.client.reader.pull_outcome import PullOutcome, outcome_of_pull

log = logging.getLogger(__name__)

_PAUSE_S_MIN: Final = 0.05
_PAUSE_S_MAX: Final = 2.0


@final
class RetryingPuller:
    def __init__(self, puller: Puller, routes: RouteBook, patience_s: float) -> None:
        self._puller = puller
        self._routes = routes
        self._patience_s = patience_s

    async def pull(
        self, order: PullOrder, *, is_filtered: bool
    ) -> tuple[PullOutcome, PulledRecords]:
        """A reply that goes on or says that offsets are gone.

        Raises RequestRefused, or Unreachable when there was none for as long as patience lasts.
        """
        loop = asyncio.get_running_loop()
        deadline_s: float | None = None
        pause_s = _PAUSE_S_MIN
        while True:
            try:
                reply = await self._puller.pull_records(order)
                outcome = outcome_of_pull(reply, order.offset, is_filtered=is_filtered)
                if outcome is not PullOutcome.NOT_NOW:
                    return outcome, reply
                error: ClientError = Unreachable(
                    order.queue.broker_name, f"it does not give what is at offset {order.offset}"
                )
            except RequestRefused as refused:
                if not refused.is_busy:
                    raise
                error = refused
            except Unreachable as unreachable:
                error = unreachable
            if deadline_s is None:
                log.info("reading of %s waits: %s", order.queue, error)
                deadline_s = loop.time() + self._patience_s
            if loop.time() + pause_s >= deadline_s:
                raise error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            await self._renew_route(order.queue.topic)

    async def _renew_route(self, topic: str) -> None:
        """The broker may be elsewhere, or only a slave of it may be left."""
        try:
            await self._routes.newest(topic)
        except (NoNameServer, TopicNotFound) as error:
            log.debug("keeping the old route: %s", error)
