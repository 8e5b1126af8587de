"""One client of a cluster: its identity, its connections and its background work.

Producers have one each. It is opened and closed by its owner, and belongs to the process and the
event loop that opened it.
"""

import asyncio
import secrets
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from ipaddress import ip_address
from typing import Any, Final, final

from roquet.client.cluster.all_masters import AllMasters
from roquet.client.cluster.heartbeats import Heartbeats
from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import RouteBook
from roquet.client.config import Credentials
from roquet.client.errors import NotOpen, UsedAfterFork, WrongLoop
from roquet.client.own_process import own_process_id
from roquet.clock import Clock
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.net.service import OnFailure, Services
from roquet.protocol.bodies.heartbeat import Heartbeat
from roquet.protocol.messages.message_id import UniqueIdMaker

_LOOPBACK: Final = "127.0.0.1"
# An address for documents: nobody has it, so the way to it is the way to everybody.
_ANYWHERE: Final = ("192.0.2.1", 9)


@final
class ClientInstance:
    """`what` names the owner in errors; `heartbeat` says what brokers are to know of it.

    Made inside a running event loop; `open` starts what runs in the background.
    """

    def __init__(  # noqa: PLR0913  All that a client may be told once, mostly by name.
        self,
        what: str,
        name_servers: tuple[str, ...],
        clock: Clock,
        heartbeat: Callable[[str], Heartbeat],
        *,
        credentials: Credentials | None = None,
        router: Router[Any] | None = None,
        tls: ssl.SSLContext | None = None,
        name: str | None = None,
        is_consumer: bool = False,
        meets_all: bool = False,
    ) -> None:
        """With a `name` the id is the same in every run on this machine. Who `meets_all` is known
        to every master, whatever topics it has to do with."""
        ip = local_ip()
        self._process = own_process_id()
        self._what = what
        self._stack = AsyncExitStack()
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        # The time keeps two clients of one process apart.
        nanoseconds = clock.now_ms() * 1_000_000 + secrets.randbelow(10**6)
        self.id = f"{ip}@{name or f'{self._process}#{nanoseconds}'}"
        self.unique_ids = UniqueIdMaker(ip_address(ip).packed, self._process, secrets.randbits(32))
        self.peers = Peers(router or Router(None, ()), clock, tls=lambda: tls)
        self.requests = Requests(self.peers, credentials)
        self.services = Services(f"{what} {self.id}")
        # Brokers that nobody has told yet hear of this client at once.
        self._wants_beat = asyncio.Event()
        names = NameServers(self.requests.call, name_servers)
        self.routes = RouteBook(names, self._wants_beat)
        self._all_masters = AllMasters(names, self._wants_beat) if meets_all else None
        self._is_consumer = is_consumer
        self.heartbeats = Heartbeats(
            self.requests,
            self._brokers_to_tell,
            lambda: heartbeat(self.id),
            self._wants_beat,
        )

    async def open(self, route_interval_s: float, heartbeat_interval_s: float) -> None:
        """Who meets all brokers has met those that answer when this returns."""
        # What is put on the stack ends in the opposite order.
        self._stack.push_async_callback(self.peers.close)
        self._stack.push_async_callback(self.heartbeats.leave)
        await self._stack.enter_async_context(self.services)
        self.services.run(
            "renew routes",
            lambda: self.routes.keep_renewed(route_interval_s),
            on_failure=OnFailure.RESTART,
        )
        self.services.run(
            "heartbeats",
            lambda: self.heartbeats.keep_beating(heartbeat_interval_s),
            on_failure=OnFailure.RESTART,
        )
        self._is_open = True
        if self._all_masters is not None:
            masters = self._all_masters
            if await masters.look():
                await self.heartbeats.beat()
            self.services.run(
                "find all brokers",
                lambda: masters.keep_known(route_interval_s),
                on_failure=OnFailure.RESTART,
            )

    async def close(self) -> None:
        """Says good-bye and closes all connections; a second time does nothing."""
        self._is_open = False
        await self._stack.aclose()

    def beat_soon(self) -> None:
        """A broker turned out not to know this client, or knows old things of it."""
        self._wants_beat.set()

    def _brokers_to_tell(self) -> set[str]:
        if self._is_consumer:
            return self.routes.addresses()
        # Slaves are only read from.
        masters = self.routes.masters()
        return masters if self._all_masters is None else masters | self._all_masters.addresses

    def check_usable(self) -> None:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        if own_process_id() != self._process:
            raise UsedAfterFork(self._what, self._process, own_process_id())
        if not self._is_open:
            raise NotOpen(self._what, was_open=True)
        self.check_loop()

    def check_loop(self) -> None:
        """Raises WrongLoop: what waits in one loop is not woken by another."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # Nothing waits here.
        if loop is not self._loop:
            raise WrongLoop(self._what)


def local_ip() -> str:
    """The address of this machine as others see it. Nothing is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANYWHERE)
        except OSError:
            return _LOOPBACK  # Not connected to anything.
        ip: str = probe.getsockname()[0]
        return ip
