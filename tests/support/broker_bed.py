"""A broker as it is assembled, with a clock that the test moves, and clients without sockets."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.build import build_broker
from roquet.broker.fast_path.fast_path import FastPath
from roquet.broker.handlers import ROUTES
from roquet.broker.membership import connection_lost
from roquet.broker.settings.config import BrokerConfig
from roquet.disk import Disk
from roquet.net.connection import Connection
from roquet.net.deadlines import DeadlineSweep
from roquet.net.limits import DEFAULT_LIMITS, ConnectionLimits
from roquet.net.router import RequestRoute, Router
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import ConsumerData, Heartbeat, ProducerData, SubscriptionData
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.fields import AddressedHeader, Header, fields_of
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.store.appends import Appended
from tests.support.accounts import Signer, signed
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.quick_disk import QuickDisk
from tests.support.stores import small_config

PATIENCE_S = 30.0
VERSION_4_9_7 = 407
VERSION_5_5_0 = 513


class BedClient(asyncio.Transport):
    """A client, and the transport that leads to it: what the broker writes is read at once."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.connection: Connection
        self._port = port
        self._frames = FrameDecoder()
        self._opaques = count()
        self._replies: asyncio.Queue[Command] = asyncio.Queue()
        self._requests: asyncio.Queue[Command] = asyncio.Queue()
        self.is_closed = False

    # What a test does.

    async def ask(
        self,
        code: RequestCode,
        header: Header | None = None,
        body: object = b"",
        *,
        version: int = VERSION_4_9_7,
        language: str = "JAVA",
        signer: Signer | None = None,
    ) -> Command:
        """The reply to a request; `body` is a body or its bytes."""
        opaque = next(self._opaques)
        data = body if isinstance(body, bytes) else write_body(body)
        command = Command(code, opaque, 0, version, language, None, fields_of(header), data)
        self.send(signed(command, signer))
        reply = await self.replied()
        assert reply.opaque == opaque
        return reply

    async def replied(self) -> Command:
        """The next reply of the broker."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._replies.get()

    async def beat(
        self,
        client_id: str,
        *,
        reads: Mapping[str, Sequence[str]] | None = None,
        sends: Sequence[str] = (),
        language: str = "JAVA",
    ) -> None:
        """A heartbeat: which groups of the client read which topics, and its producer groups."""
        consumers = [
            ConsumerData(
                group_name=group,
                consume_type="CONSUME_PASSIVELY",
                message_model="CLUSTERING",
                consume_from_where="CONSUME_FROM_LAST_OFFSET",
                subscription_data_set=[
                    SubscriptionData(topic=topic, sub_string="*") for topic in topics
                ],
            )
            for group, topics in (reads or {}).items()
        ]
        producers = [ProducerData(group_name=group) for group in sends]
        beat = Heartbeat(
            client_id=client_id, consumer_data_set=consumers, producer_data_set=producers
        )
        reply = await self.ask(RequestCode.HEART_BEAT, AddressedHeader(), beat, language=language)
        assert reply.code == ResponseCode.SUCCESS

    async def asked(self) -> Command:
        """The next request of the broker."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._requests.get()

    async def all_asked(self) -> list[Command]:
        """All requests of the broker so far."""
        await asyncio.sleep(0)  # What was answered in this turn is written at its end.
        return [self._requests.get_nowait() for _ in range(self._requests.qsize())]

    def answer(
        self, request: Command, code: ResponseCode = ResponseCode.SUCCESS, **members: Any
    ) -> None:
        self.send(reply_to(request, code, **members))

    def send(self, command: Command) -> None:
        self.connection.data_received(encode_command(command))

    def leave(self) -> None:
        """The socket is closed by this side."""
        self.is_closed = True
        self.connection.connection_lost(None)

    # What the broker does.

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", self._port) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0  # What is written is read at once.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for frame in self._frames.cut(bytes(data)):
            command = decode_command(frame)
            queue = self._replies if command.is_response else self._requests
            queue.put_nowait(command)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)


@dataclass
class BrokerBed:
    broker: Broker
    clock: FakeClock
    routes: Sequence[RequestRoute[Broker]] = ROUTES

    def __post_init__(self) -> None:
        self._router = Router(self.broker, self.routes, self.broker.access.guard)
        self.fast_path = FastPath(self.broker, has_pulls=True)
        self._deadlines = DeadlineSweep(self.clock)
        self._ports = count(50_000)

    def connect(
        self, limits: ConnectionLimits = DEFAULT_LIMITS, *, has_fast_path: bool = True
    ) -> BedClient:
        client = BedClient(next(self._ports))
        self.attach(client, limits, has_fast_path=has_fast_path)
        return client

    def attach(
        self, client: BedClient, limits: ConnectionLimits, *, has_fast_path: bool = True
    ) -> None:
        """Connects an existing client."""
        fast_path = self.fast_path if has_fast_path and self.broker.access.guard is None else None
        client.connection = Connection(
            self,
            self._router.answer,
            self._deadlines,
            limits,
            fast_path=fast_path,
            budget=self.broker.access.connection_budget,
        )
        client.connection.connection_made(client)

    def put(self, body: bytes = b"hello", **members: Any) -> Appended:
        """Stores a message; `members` are those of `draft`."""
        return self.broker.store.append(draft(body, **members))

    @property
    def wants_to_register(self) -> bool:
        """Whether name servers are to be notified soon; here nothing does it."""
        return self.broker.registrar._is_stale.is_set()

    @property
    def unsaved_files(self) -> list[str]:
        """Tables that are to be saved soon; here nothing does it."""
        broker = self.broker
        savers = (
            broker.tables.savers.topics,
            broker.tables.savers.groups,
            broker.tables.savers.offsets,
        )
        return [saver._name for saver in savers if saver._is_wanted.is_set()]

    @property
    def has_saved_offsets(self) -> bool:
        """Whether the file of offsets has all that the table has."""
        saver = self.broker.tables.savers.offsets
        return saver._saved_count == self.broker.tables.offsets.change_count

    @property
    def waiting_pull_count(self) -> int:
        """How many pulls wait for messages."""
        return sum(map(len, self.broker.messages.long_polls._by_queue.values()))

    def clear_pending(self) -> None:
        """What is to be saved or registered from now on is news."""
        self.broker.registrar._is_stale.clear()
        for saver in (
            self.broker.tables.savers.topics,
            self.broker.tables.savers.groups,
            self.broker.tables.savers.offsets,
        ):
            saver._is_wanted.clear()

    # What a server does with its connections.

    def opened(self, connection: Connection) -> None:
        pass

    def closed(self, connection: Connection) -> None:
        connection_lost(self.broker, connection)


@asynccontextmanager
async def broker_bed(
    directory: Path,
    *,
    disk: Disk | None = None,
    clock: FakeClock | None = None,
    **settings: Any,
) -> AsyncIterator[BrokerBed]:
    """`settings` are members of BrokerConfig."""
    clock = clock or FakeClock()
    config = replace(
        BrokerConfig(store=small_config(directory), broker_name="broker-a"), **settings
    )
    async with AsyncExitStack() as stack:
        broker = build_broker(config, clock, disk or QuickDisk(), stack)
        await stack.enter_async_context(broker.background.services)
        yield BrokerBed(broker, clock)
