"""A network in memory that is late, stalls and breaks, as its seed decides.

What goes over one connection keeps its order, as TCP has it; between connections nothing does. A
packet that is lost is sent again by the system, so all that is seen of it is a pause. A connection
that breaks takes along what was on its way, in both directions, and each side hears of it when it
hears of it.
"""

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final, cast

Address = tuple[str, int]
Factory = Callable[[], asyncio.BaseProtocol]

_USUAL_S: Final = 0.0005
_LATE_S: Final = 0.05
_STALLED_S: Final = 2.0
_HIGH: Final = 65_536
_CLIENT_PORTS: Final = 40_000
# As a number of a socket that is none of the last ones.
_DESCRIPTOR: Final = 50


class _Socket:
    def fileno(self) -> int:
        return _DESCRIPTOR


class Listening:
    """In place of the `Listener` of a server."""

    def __init__(self, network: "Network", address: Address) -> None:
        self._network = network
        self._address = address

    async def close(self) -> None:
        self._network.listeners.pop(self._address, None)


class Network:
    def __init__(self, loop: asyncio.BaseEventLoop, seed: int) -> None:
        self.loop = loop
        # Every connection has a fate of its own, whatever others send before it does.
        self._seed = seed
        self.chance = self.fate_of(0)
        self.listeners: dict[Address, Factory] = {}
        # Both ends of a connection stand next to each other.
        self.ends: list[tuple[End, End]] = []
        self._ports = count(_CLIENT_PORTS)
        # How likely a piece is late, and how likely it is lost on its first way.
        self.late = 0.05
        self.lost = 0.0
        # Who is there but cannot be reached now, nor reach anybody.
        self.silent: set[Address] = set()

    def listen(self, host: str, port: int, factory: Factory) -> Listening:
        address = (host, port)
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self.listeners[address] = factory
        return Listening(self, address)

    async def connect(self, host: str, port: int, factory: Factory) -> Any:
        caller = (host, next(self._ports))
        chance = self.fate_of(caller[1])
        await asyncio.sleep(self.delay_s(chance))
        address = (host, port)
        while address in self.silent:  # noqa: ASYNC110  Nobody would tell.
            await asyncio.sleep(_STALLED_S)  # The one who calls gives up some day.
        accept = self.listeners.get(address)
        if accept is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        ours = End(self, chance, own=caller, peer=address)
        theirs = End(self, self.fate_of(-caller[1]), own=address, peer=caller)
        ours.other, theirs.other = theirs, ours
        self.ends.append((ours, theirs))
        theirs.begin(accept())
        ours.begin(factory())
        return ours, ours.get_protocol()

    def fate_of(self, connection: int) -> Random:
        return Random(f"{self._seed} network {connection}")

    def delay_s(self, chance: Random) -> float:
        fate = chance.random()
        if fate < self.lost:
            return chance.uniform(_LATE_S, _STALLED_S)
        if fate < self.lost + self.late:
            return chance.uniform(0, _LATE_S)
        return chance.uniform(0, _USUAL_S)

    def cut(self, ends: "tuple[End, End]") -> None:
        """The connection is gone; each side hears of that when it does."""
        for end in ends:
            end.reset()

    def cut_some(self) -> int:
        """Breaks some of the connections; how many."""
        chosen = [ends for ends in self.ends if self.chance.random() < 0.5]
        for ends in chosen:
            self.cut(ends)
        return len(chosen)

    def drop_all_of(self, port: int) -> None:
        """A process has died: nothing it still sends arrives, and its peers are reset."""
        for address in [each for each in self.listeners if each[1] == port]:
            del self.listeners[address]
        for ends in [each for each in self.ends if any(end.own[1] == port for end in each)]:
            self.cut(ends)

    def forget(self, end: "End") -> None:
        self.ends = [
            each for each in self.ends if end not in each or not all(e.is_over for e in each)
        ]


class End(asyncio.Transport):
    """One side of a connection, for the protocol that it belongs to."""

    other: "End"

    def __init__(self, network: Network, chance: Random, *, own: Address, peer: Address) -> None:
        super().__init__()
        self._chance = chance
        self.own = own
        self.peer = peer
        self.is_over = False
        self._network = network
        self._protocol: asyncio.BaseProtocol | None = None
        self._is_closing = False
        self._is_reset = False
        self._is_paused = False
        self._last_arrival_s = 0.0
        self._on_its_way: deque[bytes | None] = deque()
        # What has arrived while reading is paused; None is the end.
        self._arrived: deque[bytes | None] = deque()
        self._unread = 0
        self._high = _HIGH
        self._low = _HIGH // 4
        self._is_full = False

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    # What protocols call.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        values = {"peername": self.peer, "sockname": self.own, "socket": _Socket()}
        return values.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._network.loop.call_soon(self._hand_out)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._unread

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        piece = bytes(data)
        self._unread += len(piece)
        cut = self._chance.randrange(len(piece) + 1) if len(piece) > 1 else 0
        for part in (piece[:cut], piece[cut:]):
            if part:
                self._pass_on(part)
        if self._unread > self._high and not self._is_full:
            self._is_full = True
            self._stream.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._pass_on(None)
            self._network.loop.call_soon(self._end, None)

    def abort(self) -> None:
        if not self._is_reset:
            self._is_closing = True
            self._network.loop.call_soon(self._end, None)
            self.other.reset()

    # How it works.

    @property
    def _stream(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", self._protocol)

    def reset(self) -> None:
        """Nothing that is on its way arrives any more."""
        self._is_reset = self._is_closing = True
        after_s = self._network.delay_s(self._chance)
        self._network.loop.call_later(after_s, self._end, ConnectionResetError("cut"))

    def _pass_on(self, part: bytes | None) -> None:
        loop = self._network.loop
        delay_s = self._network.delay_s(self._chance)
        self._last_arrival_s = max(self._last_arrival_s, loop.time() + delay_s)
        self.other._on_its_way.append(part)
        loop.call_at(self._last_arrival_s, self.other._arrive)

    def _arrive(self) -> None:
        # Not the part that this call was made for: of two of one time, either may come first.
        part = self._on_its_way.popleft()
        if self._is_reset or self.is_over:
            return
        if self.own in self._network.silent or self.peer in self._network.silent:
            # Retransmitted until it arrives. What follows waits.
            self._network.loop.call_later(_LATE_S, self._arrive_again)
            self._arrived.append(part)
            return
        self._arrived.append(part)
        self._hand_out()

    def _arrive_again(self) -> None:
        if self.own in self._network.silent or self.peer in self._network.silent:
            self._network.loop.call_later(_LATE_S, self._arrive_again)
        else:
            self._hand_out()

    def _hand_out(self) -> None:
        while self._arrived and not self._is_paused and not self.is_over and not self._is_reset:
            part = self._arrived.popleft()
            if part is None:
                self._is_closing = True
                self._end(None)
                self.other._end(None)
                return
            self.other._read(len(part))
            if not self._is_closing:
                self._stream.data_received(part)

    def _read(self, size: int) -> None:
        self._unread -= size
        if self._is_full and self._unread <= self._low and not self.is_over:
            self._is_full = False
            self._stream.resume_writing()

    def _end(self, error: Exception | None) -> None:
        if not self.is_over:
            self.is_over = True
            self._network.forget(self)
            self._stream.connection_lost(error)
