"""What clients of one id share: connections, routes, heartbeats, name servers.

Most clients share with no other. Those of one process and event loop that were given the same name
do: brokers see one client that has all their groups.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, final

from roquet.client.cluster.heartbeats import Heartbeats
from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import AllMasters, RouteBook
from roquet.client.config import Credentials, TlsConfig, tls_context
from roquet.client.errors import BadArgument
from roquet.clock import Clock
from roquet.net.address_server import AddressServer, NameServerSource
from roquet.net.connection import Connection
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.net.service import OnFailure, Services
from roquet.protocol.bodies.clients import Heartbeat
from roquet.protocol.codes import CommandFlag
from roquet.protocol.command import Command, decode_command
from roquet.protocol.frame import Frame
from roquet.protocol.messages.message_id import UniqueIdMaker

log = logging.getLogger(__name__)

_RESPONSE: Final = int(CommandFlag.RESPONSE)
_NO_ROUTES: Final = Router[None](None, ())


class ClientIdentity(NamedTuple):
    """`client_id` identifies a client at brokers."""

    client_id: str
    ip: str
    process_id: int


class LinkSettings(NamedTuple):
    """Settings that clients must have in common to share."""

    name_servers: NameServerSource
    credentials: Credentials | None = None
    tls: TlsConfig | bool = False
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0


@dataclass(frozen=True, eq=False, slots=True)
class Participant:
    """One client: `heartbeat` makes what it registers at brokers, for its client id.

    Requests of brokers are answered by `router`; of several clients, by the one whose `is_asked`
    returns True.
    """

    what: str
    heartbeat: Callable[[str], Heartbeat]
    router: Router[Any] | None = None
    is_asked: Callable[[Command], bool] = lambda _command: True
    is_consumer: bool = False
    # Registered at every master, whatever its topics are.
    registers_everywhere: bool = False


@final
class Links:
    """Made inside a running event loop. `enter` and `leave` are called once by each client.

    `router` answers brokers for a client that is alone.
    """

    def __init__(
        self,
        identity: ClientIdentity,
        settings: LinkSettings,
        clock: Clock,
        router: Router[Any] | None = None,
    ) -> None:
        self.id = identity.client_id
        self.settings = settings
        self.unique_ids = UniqueIdMaker(
            ip_address(identity.ip).packed, identity.process_id, secrets.randbits(32)
        )
        tls = tls_context(settings.tls)
        self._participants: list[Participant] = []
        # Every reply of a broker passes here, so a client that does not share is not searched.
        answering = router or _SharedRouter(self._participants)
        self.peers = Peers(answering, clock, tls=lambda: tls)
        self.requests = Requests(self.peers, settings.credentials)
        # Set for a heartbeat at once, to brokers that do not know this client yet.
        self._wants_beat = asyncio.Event()
        self.names = NameServers(self.requests.call, settings.name_servers.addresses)
        self.routes = RouteBook(self.names, self._wants_beat)
        self._all_masters = AllMasters(self.names, self._wants_beat, clock.monotonic_s)
        self.heartbeats = Heartbeats(
            self.requests, self._registration_addresses, self._heartbeat, self._wants_beat
        )
        self._services = Services(f"client {self.id}")
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._is_open = False
        self._finds_all = False

    def is_last(self, participant: Participant) -> bool:
        return self._participants == [participant]

    def enter(self, participant: Participant) -> None:
        """Raises BadArgument for a group that another client of the same id has already."""
        groups = groups_of(participant.heartbeat(self.id))
        taken = groups & groups_of(self._heartbeat())
        if taken:
            kind, group = min(taken)
            raise BadArgument(
                f"a {kind} of group {group!r} has this `instance_name` already: "
                "give this one another name, or none",
                "instance_name",
            )
        self._participants.append(participant)

    async def open(self) -> None:
        """Starts background tasks, and registers at all masters if a client needs that."""
        async with self._opening:
            if not self._is_open:
                await self._start()
                self._is_open = True
            else:
                # A new client, which no broker knows yet.
                self.heartbeats.forget_registered()
                self._wants_beat.set()
            if not self._finds_all and any(
                each.registers_everywhere for each in self._participants
            ):
                await self._register_everywhere()

    async def leave(self, participant: Participant) -> None:
        """Unregisters one client; the last one closes all connections."""
        addresses = self._registration_addresses()
        self._participants.remove(participant)
        heartbeat = participant.heartbeat(self.id)
        if self._participants:
            await self.heartbeats.leave(heartbeat, addresses)
            return
        # After background tasks have ended, or a heartbeat could register it again.
        self._stack.push_async_callback(self.peers.close)
        self._stack.push_async_callback(self.routes.close)
        self._stack.push_async_callback(self.heartbeats.leave, heartbeat, addresses)
        if self._is_open:
            self._stack.push_async_exit(self._services)
        await self._stack.aclose()

    def beat_soon(self) -> None:
        """A broker does not know this client, or knows an old state of it."""
        self._wants_beat.set()

    async def _start(self) -> None:
        settings = self.settings
        await self._services.__aenter__()
        run = self._services.run
        if settings.name_servers.url is not None:
            server = AddressServer(settings.name_servers.url, self.names.use)
            await server.ask()
            run("find name servers", server.keep_asking, on_failure=OnFailure.RESTART)
        run(
            "renew routes",
            lambda: self.routes.keep_renewed(settings.route_interval_s),
            on_failure=OnFailure.RESTART,
        )
        run(
            "heartbeats",
            lambda: self.heartbeats.keep_beating(settings.heartbeat_interval_s),
            on_failure=OnFailure.RESTART,
        )

    async def _register_everywhere(self) -> None:
        self._finds_all = True
        if await self._all_masters.refresh():
            await self.heartbeats.beat()
        self._services.run(
            "find all brokers",
            lambda: self._all_masters.keep_known(self.settings.route_interval_s),
            on_failure=OnFailure.RESTART,
        )

    def _registration_addresses(self) -> set[str]:
        if any(each.is_consumer for each in self._participants):
            return self.routes.addresses() | self._all_masters.addresses
        # Producers use no slaves.
        return self.routes.masters() | self._all_masters.addresses

    def _heartbeat(self) -> Heartbeat:
        return merged(self.id, [each.heartbeat(self.id) for each in self._participants])


def merged(client_id: str, heartbeats: Iterable[Heartbeat]) -> Heartbeat:
    """One heartbeat for clients that share an id."""
    together = Heartbeat(client_id=client_id)
    for each in heartbeats:
        together.producer_data_set += each.producer_data_set
        together.consumer_data_set += each.consumer_data_set
    return together


def groups_of(heartbeat: Heartbeat) -> set[tuple[str, str]]:
    producers = {("producer", each.group_name) for each in heartbeat.producer_data_set}
    return producers | {("consumer", each.group_name) for each in heartbeat.consumer_data_set}


@final
class _SharedRouter:
    """Hands a request of a broker to the client that it concerns."""

    def __init__(self, participants: list[Participant]) -> None:
        self._participants = participants

    def answer(self, connection: Connection, frame: Frame) -> bytes | None:
        """As `Router.answer`."""
        command = decode_command(frame)
        if command.flag & _RESPONSE:
            connection.accept_response(command)
            return None
        for each in self._participants:
            if each.router is not None and each.is_asked(command):
                return each.router.answer(connection, frame)
        return _NO_ROUTES.answer(connection, frame)
