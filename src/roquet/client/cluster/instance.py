"""One client of a cluster: its identity, its connections and its background work.

Producers and consumers have one each. It is opened and closed by its owner, and belongs to the
process and the event loop that opened it. Clients of the same name share their links.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable
from threading import get_ident
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, final

from roquet.client.cluster.links import ClientIdentity, Links, LinkSettings, Participant
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import BadArgument, NotOpen, UsedAfterFork, WrongLoop
from roquet.client.lifecycle import current_process_id
from roquet.clock import Clock, SystemClock
from roquet.net.address_server import NameServerSource
from roquet.net.router import Router
from roquet.net.service import Services
from roquet.protocol.bodies.clients import Heartbeat

_LOOPBACK: Final = "127.0.0.1"
# A documentation address (RFC 5737): the route to it is the default route.
_ANYWHERE: Final = ("192.0.2.1", 9)

T = TypeVar("T")


class InstanceName(NamedTuple):
    """With a `name` the id is the same in every run on this machine, and clients of the same name
    may share. A `unit` separates parts of a company."""

    name: str | None = None
    unit: str | None = None
    is_shared: bool = False


class _SharingKey(NamedTuple):
    loop: asyncio.AbstractEventLoop
    name_servers: NameServerSource
    client_id: str


# Until the last client that shares them is closed.
_shared: Final[dict[_SharingKey, Links]] = {}


@final
class ClientInstance:
    """Made inside a running event loop; `open` starts the background tasks."""

    def __init__(
        self,
        participant: Participant,
        settings: LinkSettings,
        clock: Clock,
        name: InstanceName = InstanceName(),  # noqa: B008  It never changes.
    ) -> None:
        """Raises BadArgument for a name that others have with other settings or the same group."""
        self._process = current_process_id()
        self._participant = participant
        self._what = participant.what
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        identity = _identity(name, self._process, clock)
        self._key: _SharingKey | None = None
        if name.is_shared:
            self._key = _SharingKey(self._loop, settings.name_servers, identity.client_id)
            links = _shared.get(self._key) or Links(identity, settings, clock)
            if links.settings != settings:
                raise BadArgument(
                    f"clients with the `instance_name` {name.name!r} share their connections: they "
                    "need the same credentials, tls and intervals, or other names",
                    "instance_name",
                )
        else:
            router = participant.router or Router(None, ())
            links = Links(identity, settings, clock, router)
        links.enter(participant)
        if self._key is not None:
            _shared[self._key] = links
        self._links: Links | None = links
        self.id = links.id
        self.unique_ids = links.unique_ids
        self.peers = links.peers
        self.requests = links.requests
        self.names = links.names
        self.routes = links.routes
        self.heartbeats = links.heartbeats
        self.beat_soon = links.beat_soon
        self.services = Services(f"{self._what} {self.id}")

    async def open(self) -> None:
        """A client that registers at all masters is registered at those that answer, on return."""
        assert self._links is not None, "an instance is opened once"
        await self.services.__aenter__()
        self._is_open = True
        await self._links.open()

    async def close(self) -> None:
        """Unregisters and, unless they are shared, closes all connections; a second time does
        nothing."""
        was_open, self._is_open = self._is_open, False
        if was_open:
            await self.services.__aexit__(None, None, None)
        links, self._links = self._links, None
        if links is None:
            return
        if self._key is not None and links.is_last(self._participant):
            # A client that is opened from now on gets new links.
            del _shared[self._key]
        await links.leave(self._participant)

    def check_usable(self) -> None:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        # Called by every send. A thread runs one loop, so its id is enough, and cheaper to get.
        if (
            self._is_open
            and current_process_id() == self._process
            and get_ident() == self._thread
            and self._loop.is_running()
        ):
            return
        if current_process_id() != self._process:
            raise UsedAfterFork(self._what, self._process, current_process_id())
        if not self._is_open:
            raise NotOpen(self._what, was_open=True)
        self.check_loop()

    def check_loop(self) -> None:
        """Raises WrongLoop: a future of one loop is not woken by another."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # No loop runs here.
        if loop is not self._loop:
            raise WrongLoop(self._what)


class _ToolConfig(Protocol):
    @property
    def name_server(self) -> str | None: ...
    @property
    def credentials(self) -> Credentials | None: ...
    @property
    def tls(self) -> TlsConfig | bool: ...


@final
class ToolSession(Generic[T]):
    """The session of a client that registers nowhere: an instance and `tools` that use it.

    `what` names the client in errors. No server is asked by `open`.
    """

    def __init__(
        self, what: str, config: _ToolConfig, new_tools: Callable[[ClientInstance], T]
    ) -> None:
        self.instance = ClientInstance(
            # A heartbeat without groups is not sent.
            Participant(what, lambda client_id: Heartbeat(client_id=client_id)),
            LinkSettings(name_server_source(config.name_server), config.credentials, config.tls),
            SystemClock(),
        )
        self.tools = new_tools(self.instance)

    async def open(self, timeout_s: float | None) -> None:  # noqa: ARG002
        await self.instance.open()

    async def close(self) -> None:
        await self.instance.close()


def _identity(name: InstanceName, process_id: int, clock: Clock) -> ClientIdentity:
    ip = local_ip()
    # The time keeps two clients of one process apart.
    nanoseconds = clock.now_ms() * 1_000_000 + secrets.randbelow(10**6)
    unit = f"@{name.unit}" if name.unit else ""
    return ClientIdentity(
        f"{ip}@{name.name or f'{process_id}#{nanoseconds}'}{unit}", ip, process_id
    )


def local_ip() -> str:
    """The address of this machine on its default route. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ANYWHERE)
        except OSError:
            return _LOOPBACK  # Not connected to anything.
        ip: str = probe.getsockname()[0]
        return ip
