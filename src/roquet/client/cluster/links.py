"""What clients of one id have in common: connections, routes, heartbeats, name servers.

Most clients are alone with theirs. Those of one process and event loop that were given the same
name share: brokers see one client that has all their groups.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, final

from roquet.client.cluster.all_masters import AllMasters
from roquet.client.cluster.heartbeats import Heartbeats
from roquet.client.cluster.name_servers import NameServers
from roquet.client.cluster.requests import Requests
from roquet.client.cluster.routes import RouteBook
from roquet.client.cluster.tls import TlsConfig, tls_context
from roquet.client.config import Credentials
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
_NOBODY: Final = Router[None](None, ())


class ClientIdentity(NamedTuple):
    """`client_id` is what brokers know a client by."""

    client_id: str
    ip: str
    process_id: int


class LinkSettings(NamedTuple):
    """What clients have to agree on to share."""

    name_servers: NameServerSource
    credentials: Credentials | None = None
    tls: TlsConfig | bool = False
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0


@dataclass(frozen=True, eq=False, slots=True)
class Participant:
    """One client: `heartbeat` is what brokers are to know of it, by the id they know it by.

    What brokers ask is answered by `router`; of several clients, by the one that says `is_asked`.
    """

    what: str
    heartbeat: Callable[[str], Heartbeat]
    router: Router[Any] | None = None
    is_asked: Callable[[Command], bool] = lambda _command: True
    is_consumer: bool = False
    # Known to every master, whatever topics it has to do with.
    meets_all: bool = False


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
        # Every answer of a broker comes by, so whoever is alone is not looked for.
        answering = router or _SharedRouter(self._participants)
        self.peers = Peers(answering, clock, tls=lambda: tls)
        self.requests = Requests(self.peers, settings.credentials)
        # Brokers that nobody has told yet hear of this client at once.
        self._wants_beat = asyncio.Event()
        self.names = NameServers(self.requests.call, settings.name_servers.addresses)
        self.routes = RouteBook(self.names, self._wants_beat)
        self._all_masters = AllMasters(self.names, self._wants_beat)
        self.heartbeats = Heartbeats(
            self.requests, self._brokers_to_tell, self._heartbeat, self._wants_beat
        )
        self._services = Services(f"client {self.id}")
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._is_open = False
        self._knows_all = False

    def is_last(self, participant: Participant) -> bool:
        return self._participants == [participant]

    def enter(self, participant: Participant) -> None:
        """Raises BadArgument for a group that another client of the same id has already."""
        groups = groups_of(participant.heartbeat(self.id))
        taken = groups & groups_of(self._heartbeat())
        if taken:
            kind, group = min(taken)
            raise BadArgument(
                f"there is a {kind} of group {group!r} with this `instance_name` already: "
                "give this one another name, or none"
            )
        self._participants.append(participant)

    async def open(self) -> None:
        """Starts what runs in the background, and meets those who have to be met."""
        async with self._opening:
            if not self._is_open:
                await self._start()
                self._is_open = True
            else:
                # Somebody new is here, whom nobody knows yet.
                self.heartbeats.forget_told()
                self._wants_beat.set()
            if not self._knows_all and any(each.meets_all for each in self._participants):
                await self._meet_all()

    async def leave(self, participant: Participant) -> None:
        """Says good-bye for one; the last one closes all connections."""
        addresses = self._brokers_to_tell()
        self._participants.remove(participant)
        heartbeat = participant.heartbeat(self.id)
        if self._participants:
            await self.heartbeats.leave(heartbeat, addresses)
            return
        # After what runs has ended, or a heartbeat could follow the good-bye.
        self._stack.push_async_callback(self.peers.close)
        self._stack.push_async_callback(self.heartbeats.leave, heartbeat, addresses)
        if self._is_open:
            self._stack.push_async_exit(self._services)
        await self._stack.aclose()

    def beat_soon(self) -> None:
        """A broker turned out not to know this client, or knows old things of it."""
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

    async def _meet_all(self) -> None:
        self._knows_all = True
        if await self._all_masters.look():
            await self.heartbeats.beat()
        self._services.run(
            "find all brokers",
            lambda: self._all_masters.keep_known(self.settings.route_interval_s),
            on_failure=OnFailure.RESTART,
        )

    def _brokers_to_tell(self) -> set[str]:
        if any(each.is_consumer for each in self._participants):
            return self.routes.addresses() | self._all_masters.addresses
        # Slaves are only read from.
        return self.routes.masters() | self._all_masters.addresses

    def _heartbeat(self) -> Heartbeat:
        return merged(self.id, [each.heartbeat(self.id) for each in self._participants])


def merged(client_id: str, heartbeats: Iterable[Heartbeat]) -> Heartbeat:
    """What brokers are told of clients that share an id."""
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
    """Hands what a broker asks to the client that it is about."""

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
        return _NOBODY.answer(connection, frame)
