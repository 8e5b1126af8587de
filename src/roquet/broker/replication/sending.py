"""A master's side of replication: a port, and a link for each slave that has connected to it."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, final

from roquet.broker.replication.both_ways import both_ways
from roquet.broker.replication.copies import Copies, Slave
from roquet.broker.replication.decisions import first_position
from roquet.broker.replication.errors import (
    LinkClosed,
    LinkError,
    SlaveAhead,
    SlaveBehind,
    reason_of,
)
from roquet.broker.replication.frames import ReportReader
from roquet.broker.replication.outgoing import OutgoingFrames
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.complaints import Complaints
from roquet.net.errors import AddressTaken
from roquet.net.service import OnFailure, Services
from roquet.protocol.host import Address
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

# Nobody has to prove that it is a slave, so strangers must not take all descriptors.
LINK_COUNT_MAX: Final = 32
_BACKLOG: Final = 16
_REPORTS_SIZE: Final = 4096
# How soon a slave gets what nobody waits for: soon while there is something to send.
_BUSY_PAUSE_S: Final = 0.01
_IDLE_PAUSE_S: Final = 0.1
_BUSY_S: Final = 1.0


@final
class SlaveLinks:
    """Belongs to the event loop; everything ends with `services`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        copies: Copies,
        services: Services,
    ) -> None:
        # Whether a slave may come from an address; assembly says it, where there is a guard.
        self.may_follow: Callable[[str], bool] = lambda _ip: True
        self._complaints = Complaints()
        self._config = config
        self._clock = clock
        self._store = store
        self._copies = copies
        self._services = services
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._links: set[_SlaveLink] = set()

    def start(self, host: str, port: int) -> None:
        """Listens. Raises OSError, AddressTaken among it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressTaken(host, port) from None
            raise
        self._listener.setblocking(False)
        self._accepting = self._services.run(
            "take slaves", self._accept, on_failure=OnFailure.RESTART
        )

    def stop(self) -> None:
        """Takes no more slaves."""
        if self._listener is not None and self._accepting is not None:
            self._accepting.cancel()
            # Not before the loop has stopped looking at it.
            asyncio.get_running_loop().call_soon(self._listener.close)

    def wake(self) -> None:
        """Somebody waits for what was stored last."""
        for link in self._links:
            link.wake()

    async def _accept(self) -> None:
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        while True:
            sock, peer = await loop.sock_accept(self._listener)
            address = str(Address(peer[0], peer[1]))
            if not self.may_follow(peer[0]):
                complaint = f"refusing slave {address}: no account trusts its address"
                self._complaints.say("refused", complaint, self._clock.monotonic_s())
                self._complaints.sum_up(self._clock.monotonic_s())
                sock.close()
                continue
            if len(self._links) >= LINK_COUNT_MAX:
                log.warning("refusing slave %s: there are %d already", address, LINK_COUNT_MAX)
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _SlaveLink(sock, address, self._config, self._clock, self._store, self._copies)
            self._links.add(link)
            self._services.once(f"slave {address}", partial(self._serve, link))

    async def _serve(self, link: "_SlaveLink") -> None:
        try:
            await link.serve()
        except (LinkError, OSError) as error:
            log.warning("slave %s is gone: %s", link.address, reason_of(error))
        finally:
            self._links.discard(link)
            link.close()


@final
class _SlaveLink:
    def __init__(
        self,
        sock: socket.socket,
        address: str,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        copies: Copies,
    ) -> None:
        self._socket = sock
        self.address = address
        self._clock = clock
        self._store = store
        self._copies = copies
        self._frame_size_max = config.ha_frame_size_max
        self._sign_of_life_s = config.ha_heartbeat_interval_ms / 1000
        self._silence_s_max = config.ha_silence_ms_max / 1000
        self._reports = ReportReader()
        self._is_wanted = asyncio.Event()
        self._heard_at_s = self._sent_at_s = clock.monotonic_s()

    def wake(self) -> None:
        self._is_wanted.set()

    def close(self) -> None:
        self._socket.close()

    async def serve(self) -> None:
        """Raises LinkError and OSError, TimeoutError among it; never returns."""
        async with asyncio.timeout(self._silence_s_max):
            while (reported := await self._report()) is None:
                pass
        position = first_position(reported, self._store.log_start, self._store.log_end)
        slave = Slave(self.address, reported, position)
        log.info("slave %s follows from %d on", self.address, position)
        self._copies.join(slave)
        try:
            await both_ways(self._read_reports(slave), self._send(slave))
        finally:
            self._copies.leave(slave)

    async def _report(self) -> int | None:
        """The last report there is; None if it is not whole. Raises LinkClosed and OSError."""
        data = await asyncio.get_running_loop().sock_recv(self._socket, _REPORTS_SIZE)
        if not data:
            raise LinkClosed("it has closed the link")
        self._heard_at_s = self._clock.monotonic_s()
        return self._reports.last(data)

    async def _read_reports(self, slave: Slave) -> None:
        while True:
            end = await self._report()
            if end is not None:
                if end > self._store.log_end:
                    raise SlaveAhead(end, self._store.log_end)
                self._copies.confirm(slave, end)

    async def _send(self, slave: Slave) -> None:
        outgoing = OutgoingFrames(slave.sent_end, self._frame_size_max)
        while True:
            now_s = self._clock.monotonic_s()
            if outgoing.position < self._store.log_start:
                raise SlaveBehind(outgoing.position, self._store.log_start)
            if now_s - self._heard_at_s > self._silence_s_max:
                raise LinkClosed(f"it has said nothing for {self._silence_s_max:g} s")
            # With sync flush, a slave must not have what a power cut can take from its master.
            buffers = outgoing.buffers(self._store.stored_end, self._store.log_view)
            if buffers:
                await self._send_some(outgoing, buffers)
                slave.sent_end = outgoing.position
            elif now_s - self._sent_at_s >= self._sign_of_life_s:
                outgoing.sign_of_life()
            else:
                await self._until_wanted(now_s)

    async def _send_some(self, outgoing: OutgoingFrames, buffers: list[bytes | memoryview]) -> None:
        wanted = sum(map(len, buffers))
        try:
            size = self._socket.sendmsg(buffers)
        except BlockingIOError:
            size = 0
        finally:
            for buffer in buffers:
                if isinstance(buffer, memoryview):
                    buffer.release()
        outgoing.sent(size)
        if size:
            self._sent_at_s = self._clock.monotonic_s()
        if size < wanted:
            await self._until_writable()
        else:
            await asyncio.sleep(0)  # Others have their turn.

    async def _until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        is_writable = asyncio.Event()
        loop.add_writer(self._socket, is_writable.set)
        try:
            async with asyncio.timeout(self._silence_s_max):
                await is_writable.wait()
        finally:
            loop.remove_writer(self._socket)

    async def _until_wanted(self, now_s: float) -> None:
        is_busy = now_s - self._sent_at_s < _BUSY_S
        self._is_wanted.clear()
        timer = asyncio.get_running_loop().call_later(
            _BUSY_PAUSE_S if is_busy else _IDLE_PAUSE_S, self._is_wanted.set
        )
        try:
            await self._is_wanted.wait()
        finally:
            timer.cancel()
