"""The seam between queues and listeners: feeds hand deliveries to workers.

A feed is one queue that this member reads: it hands over deliveries, and gets their results.
Workers call the listener. Everything but the listener runs in the event loop.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, final

import msgspec

from roquet.client.hooks import Consuming
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage


class Feed(Protocol):
    queue: QueueRef
    # The queue was lost: no more deliveries are started.
    is_dropped: bool

    def ended(self, delivery: "Delivery", error: BaseException | None, duration_s: float) -> None:
        """Gets what the listener raised. Called once for each delivery, unless all is closed."""

    def all_done(self, deliveries: "Sequence[Delivery]", duration_s: float) -> None:
        """As `ended` for each of them, without an error."""


@final
class Delivery(msgspec.Struct, eq=False):
    """The messages of one call of a listener."""

    feed: Feed
    messages: list[ReceivedMessage]
    # Only for hooks.
    consuming: Consuming | None = None


class Running(NamedTuple):
    delivery: Delivery
    begin_s: float


class Workers(Protocol):
    """Calls a listener with deliveries in their order, several of them concurrently."""

    def start(self) -> None: ...

    def put(self, deliveries: Iterable[Delivery]) -> None: ...

    def pause(self) -> None:
        """Running deliveries continue, but none are started."""

    def resume(self) -> None: ...

    @property
    def running(self) -> list[Running]: ...

    def give_up(self, running: Running, timeout_s: float) -> None:
        """It took too long."""

    async def stop(self, timeout_s: float) -> None:
        """Starts no more, and waits that long for running ones."""
