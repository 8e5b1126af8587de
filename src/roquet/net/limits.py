"""How much time and memory peers may take: one of them, and all of a server together.

`ConnectionLimits` limits one peer. That is not enough: a thousand of them, each within its limit,
would take all memory. `ConnectionBudget` counts all connections of a server, whichever port they
came to, and what they hold.
"""

from collections import Counter
from typing import Final, Protocol, final

import msgspec

from roquet.clock import Clock
from roquet.net.errors import TableFull
from roquet.protocol.frame import FRAME_SIZE_MAX, HEADER_SIZE_MAX

# Share of the limit that is freed at once, so that the next byte does not exceed it again.
_SHED_SHARE: Final = 4


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    frame_size_max: int = FRAME_SIZE_MAX
    header_size_max: int = HEADER_SIZE_MAX
    # From the first byte of a frame to its end: one byte a second would hold memory forever.
    frame_timeout_s: float = 10.0
    # From the first byte of a TLS handshake to its end.
    handshake_timeout_s: float = 10.0
    idle_timeout_s: float = 120.0
    # Above this many unread bytes no more requests are answered, below a quarter of it again.
    unread_size_high: int = 1024 * 1024
    # Longer than this above the mark, or ever above the maximum, and the peer is disconnected.
    unread_timeout_s: float = 30.0
    unread_size_max: int = 64 * 1024 * 1024
    # Deferred requests of the peer: one pull per queue is normal.
    deferred_count_max: int = 16_384
    # Our own calls to the peer that are not answered yet.
    call_count_max: int = 65_536
    # A call that waited this long with nothing received meanwhile: the peer is gone.
    silence_timeout_s: float = 2.0


DEFAULT_LIMITS: Final = ConnectionLimits()


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    connection_count_max: int = 20_000
    # One address cannot keep out all others.
    connection_count_max_per_address: int = 16_000
    accept_rate_max: int = 5_000  # a second
    # On top of these limits, in all and per second, for peers on the server's own machine: an
    # operator can always connect.
    local_count_max: int = 64
    # Bytes of incomplete requests, and bytes that peers have not read.
    held_size_max: int = 512 * 1024 * 1024
    # Deferred requests, such as pulls that wait for messages.
    deferred_count_max: int = 200_000


DEFAULT_SERVER_LIMITS: Final = ServerLimits()


class BudgetedConnection(Protocol):
    held_size: int

    def count_held(self) -> None:
        """Updates `held_size`, and reports the difference to the budget."""

    def cut_off(self, reason: str) -> None:
        """Closes at once."""


@final
class ConnectionBudget:
    """Counts the connections of one server, refuses new ones, disconnects those that hold most.

    `refused_count` connections were refused, `cut_off_count` were disconnected because they held
    too much. `refusals` are refused requests, by the code of their reply.
    """

    __slots__ = (
        "_accepts",
        "_by_address",
        "_connections",
        "_is_shedding",
        "_limits",
        "_local_accepts",
        "count",
        "cut_off_count",
        "deferred_count",
        "held_size",
        "refusals",
        "refused_count",
    )

    def __init__(self, clock: Clock, limits: ServerLimits = DEFAULT_SERVER_LIMITS) -> None:
        self._limits = limits
        self._accepts = _TokenBucket(clock, limits.accept_rate_max)
        self._local_accepts = _TokenBucket(clock, limits.local_count_max)
        self._by_address: Counter[str] = Counter()
        self._connections: set[BudgetedConnection] = set()
        self._is_shedding = False
        self.count = 0
        self.held_size = 0
        self.deferred_count = 0
        self.refused_count = 0
        self.cut_off_count = 0
        self.refusals: Counter[int] = Counter()

    # Which connections are accepted.

    def refusal(self, ip: str, *, is_local: bool) -> str | None:
        """Why one more connection from there is refused; None if it is accepted."""
        reason = self._refusal(ip, is_local=is_local)
        if reason is not None:
            self.refused_count += 1
        return reason

    def _refusal(self, ip: str, *, is_local: bool) -> str | None:
        reason = self._limit_reached(ip)
        if reason is None:
            if self._accepts.take():
                return None
            reason = f"more than {self._limits.accept_rate_max} connections were opened in a second"
        if is_local and self._has_reserve() and self._local_accepts.take():
            return None
        return reason

    def opened(self, ip: str) -> None:
        self.count += 1
        self._by_address[ip] += 1

    def closed(self, ip: str) -> None:
        self.count -= 1
        self._by_address[ip] -= 1
        if not self._by_address[ip]:
            del self._by_address[ip]

    def _limit_reached(self, ip: str) -> str | None:
        limits = self._limits
        if self.count >= limits.connection_count_max:
            return f"{self.count} connections are open"
        if self._by_address[ip] >= limits.connection_count_max_per_address:
            return f"{self._by_address[ip]} connections from {ip} are open"
        return None

    def _has_reserve(self) -> bool:
        return self.count < self._limits.connection_count_max + self._limits.local_count_max

    # What connections hold.

    def check_room_to_defer(self) -> None:
        """Raises TableFull when no more requests may be deferred."""
        limit = self._limits.deferred_count_max
        if self.deferred_count >= limit:
            raise TableFull("deferred requests", limit, "maxWaitingRequests")

    def add(self, connection: BudgetedConnection) -> None:
        self._connections.add(connection)

    def discard(self, connection: BudgetedConnection) -> None:
        self._connections.discard(connection)
        self.held_size -= connection.held_size
        connection.held_size = 0

    def hold(self, difference: int) -> None:
        """Counts bytes; above the limit, the connections that hold most are disconnected."""
        self.held_size += difference
        if self.held_size > self._limits.held_size_max and not self._is_shedding:
            self._is_shedding = True
            self._shed()
            self._is_shedding = False

    def recount(self) -> None:
        """Called once a second: transports do not report when a peer has read."""
        for connection in tuple(self._connections):
            connection.count_held()

    def _shed(self) -> None:
        size_max = self._limits.held_size_max
        self.recount()
        if self.held_size <= size_max:
            return
        for connection in sorted(self._connections, key=lambda each: each.held_size, reverse=True):
            if self.held_size <= size_max - size_max // _SHED_SHARE:
                return
            size = connection.held_size
            self.held_size -= size
            connection.held_size = 0
            self.cut_off_count += 1
            connection.cut_off(
                f"held {size} bytes, the most of all, and all together may hold {size_max}"
            )


@final
class _TokenBucket:
    """A token bucket of `rate` a second; unused tokens are kept for one second."""

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
