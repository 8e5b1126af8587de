"""Messages on their way to a listener, and what readers of queues and listeners know of each other.

A feed is one queue that this member reads now: it hands over deliveries, and hears how they ended.
Workers call the listener. Everything happens in the event loop, but the listener itself.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol, final

import msgspec

from roquet.client.hooks import Consuming
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage


class Feed(Protocol):
    queue: QueueRef
    # The queue was lost: what has not begun is not begun any more.
    is_dropped: bool

    def ended(self, delivery: "Delivery", error: BaseException | None, duration_s: float) -> None:
        """What the listener raised, if it did. Called once for each delivery, unless all ends."""


@final
class Delivery(msgspec.Struct, eq=False):
    """What one call of a listener gets."""

    feed: Feed
    messages: list[ReceivedMessage]
    # Only for hooks.
    consuming: Consuming | None = None


class Running(NamedTuple):
    delivery: Delivery
    begin_s: float


class Workers(Protocol):
    """Calls a listener with what is put in, in that order, some at the same time."""

    def start(self) -> None: ...

    def put(self, deliveries: Iterable[Delivery]) -> None: ...

    def pause(self) -> None:
        """What runs goes on, but nothing is begun."""

    def resume(self) -> None: ...

    @property
    def running(self) -> list[Running]: ...

    def give_up(self, running: Running, timeout_s: float) -> None:
        """It took too long."""

    async def stop(self, timeout_s: float) -> None:
        """Begins nothing more, and waits that long for what runs."""
