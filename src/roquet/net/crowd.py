"""All peers of one server together, whichever port they came to: how many, and what they hold.

`limits.py` says what one peer may take. That is not enough: a thousand of them, each within its
limit, would take all there is.
"""

from collections import Counter
from typing import Final, Protocol, final

import msgspec

from roquet.clock import Clock
from roquet.net.errors import TableFull

# What is cut off at once, so that the next byte is not too much again.
_SHED_SHARE: Final = 4


class CrowdBounds(msgspec.Struct, frozen=True, kw_only=True):
    connection_count_max: int = 20_000
    # So that nobody keeps out all others.
    connection_count_max_per_address: int = 16_000
    accept_rate_max: int = 5_000  # a second
    # On top of all these limits, in all and per second, for peers on the server's own machine: an
    # operator can always come in.
    local_count_max: int = 64
    # Bytes that came and are no whole requests yet, and bytes that peers have not read.
    held_size_max: int = 512 * 1024 * 1024
    # Requests that wait for something, such as pulls for messages.
    parked_count_max: int = 200_000


DEFAULT_CROWD_BOUNDS: Final = CrowdBounds()


class Holder(Protocol):
    held_size: int

    def count_held(self) -> None:
        """Brings `held_size` up to date, and tells the crowd of the difference."""

    def cut_off(self, reason: str) -> None:
        """Closes at once."""


@final
class Crowd:
    """`refused_count` peers were not let in, `cut_off_count` held too much.

    `refusals` are requests that were refused, by the code of their reply.
    """

    __slots__ = (
        "_accepts",
        "_bounds",
        "_by_address",
        "_holders",
        "_is_shedding",
        "_local_accepts",
        "count",
        "cut_off_count",
        "held_size",
        "parked_count",
        "refusals",
        "refused_count",
    )

    def __init__(self, clock: Clock, bounds: CrowdBounds = DEFAULT_CROWD_BOUNDS) -> None:
        self._bounds = bounds
        self._accepts = _Allowance(clock, bounds.accept_rate_max)
        self._local_accepts = _Allowance(clock, bounds.local_count_max)
        self._by_address: Counter[str] = Counter()
        self._holders: set[Holder] = set()
        self._is_shedding = False
        self.count = 0
        self.held_size = 0
        self.parked_count = 0
        self.refused_count = 0
        self.cut_off_count = 0
        self.refusals: Counter[int] = Counter()

    # Who may come in.

    def refusal(self, ip: str, *, is_local: bool) -> str | None:
        """Why one more peer from there is not let in; None if it is."""
        reason = self._refusal(ip, is_local=is_local)
        if reason is not None:
            self.refused_count += 1
        return reason

    def _refusal(self, ip: str, *, is_local: bool) -> str | None:
        reason = self._crowded(ip)
        if reason is None:
            if self._accepts.take():
                return None
            reason = f"more than {self._bounds.accept_rate_max} connections came in a second"
        if is_local and self._has_room_for_local() and self._local_accepts.take():
            return None
        return reason

    def entered(self, ip: str) -> None:
        self.count += 1
        self._by_address[ip] += 1

    def left(self, ip: str) -> None:
        self.count -= 1
        self._by_address[ip] -= 1
        if not self._by_address[ip]:
            del self._by_address[ip]

    def _crowded(self, ip: str) -> str | None:
        bounds = self._bounds
        if self.count >= bounds.connection_count_max:
            return f"{self.count} connections are open"
        if self._by_address[ip] >= bounds.connection_count_max_per_address:
            return f"{self._by_address[ip]} connections from {ip} are open"
        return None

    def _has_room_for_local(self) -> bool:
        return self.count < self._bounds.connection_count_max + self._bounds.local_count_max

    # What they hold.

    def check_room_to_park(self) -> None:
        """Raises TableFull when one more request would be too many to wait."""
        limit = self._bounds.parked_count_max
        if self.parked_count >= limit:
            raise TableFull("requests that wait", limit, "maxWaitingRequests")

    def add(self, holder: Holder) -> None:
        self._holders.add(holder)

    def discard(self, holder: Holder) -> None:
        self._holders.discard(holder)
        self.held_size -= holder.held_size
        holder.held_size = 0

    def hold(self, difference: int) -> None:
        """Somebody holds that much more; if it is too much, those with the most are cut off."""
        self.held_size += difference
        if self.held_size > self._bounds.held_size_max and not self._is_shedding:
            self._is_shedding = True
            self._shed()
            self._is_shedding = False

    def recount(self) -> None:
        """Nobody tells when a peer has read: to be called every now and then."""
        for holder in tuple(self._holders):
            holder.count_held()

    def _shed(self) -> None:
        size_max = self._bounds.held_size_max
        self.recount()
        if self.held_size <= size_max:
            return
        for holder in sorted(self._holders, key=lambda each: each.held_size, reverse=True):
            if self.held_size <= size_max - size_max // _SHED_SHARE:
                return
            size = holder.held_size
            self.held_size -= size
            holder.held_size = 0
            self.cut_off_count += 1
            holder.cut_off(
                f"held {size} bytes, the most of all, and all together may hold {size_max}"
            )


@final
class _Allowance:
    """At most `rate` a second; what was not used is kept for one second."""

    __slots__ = ("_clock", "_left", "_rate", "_seen_s")

    def __init__(self, clock: Clock, rate: int) -> None:
        self._clock = clock
        self._rate = rate
        self._left = float(rate)
        self._seen_s = clock.monotonic_s()

    def take(self) -> bool:
        now_s = self._clock.monotonic_s()
        self._left = min(self._rate, self._left + (now_s - self._seen_s) * self._rate)
        self._seen_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
