"""A small server on a real socket: echoes, parks, refuses and breaks on demand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from roquet.clock import SystemClock
from roquet.net.connection import Connection
from roquet.net.errors import Refused
from roquet.net.limits import (
    DEFAULT_LIMITS,
    DEFAULT_SERVER_LIMITS,
    ConnectionBudget,
    ConnectionLimits,
    ServerLimits,
)
from roquet.net.router import Deferred, Reply, Request, Router, on
from roquet.net.serving import Server
from roquet.net.tls.contexts import ServerTls
from roquet.net.tls.settings import TlsSettings
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.fields import Header, field_texts, fields_of
from tests.support.fake_clock import FakeClock

ECHO: Final = RequestCode.SEND_MESSAGE
ECHO_ENCODED: Final = RequestCode.SEND_MESSAGE_V2
DEFER: Final = RequestCode.PULL_MESSAGE
REFUSE: Final = RequestCode.QUERY_MESSAGE
BREAK: Final = RequestCode.HEART_BEAT


class EchoHeader(Header):
    text: str = ""
    body_size: int = 0


class EchoServer:
    """What the handlers below work on."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.deferred: list[Deferred] = []
        self.lost: list[Deferred] = []
        self.connections: list[Connection] = []
        self.closed: list[Connection] = []
        self.clock = FakeClock()
        self.port = 0
        self.listener: Server
        self.budget: ConnectionBudget
        self.tls: ServerTls | None = None


def echo(server: EchoServer, request: Request[EchoHeader]) -> Reply:
    server.served.append(request.header.text)
    server.connections.append(request.connection)
    return Reply(header=request.header, body=bytes(request.header.body_size) or request.body)


def echo_encoded(_server: EchoServer, request: Request[EchoHeader]) -> bytes:
    return encode_command(reply_to(request.command, header=request.header))


def defer(server: EchoServer, request: Request[Header]) -> Deferred:
    server.connections.append(request.connection)
    deferred = Deferred(request, server.lost.append)
    server.deferred.append(deferred)
    return deferred


def refuse(_server: EchoServer, _request: Request[Header]) -> Reply:
    raise Refused(ResponseCode.NO_PERMISSION, "not today")


def fail(_server: EchoServer, _request: Request[Header]) -> Reply:
    raise KeyError("our own mistake")


ROUTES = (
    on(ECHO, EchoHeader, echo),
    on(ECHO_ENCODED, EchoHeader, echo_encoded),
    on(DEFER, Header, defer),
    on(REFUSE, Header, refuse),
    on(BREAK, Header, fail),
)


@asynccontextmanager
async def running_echo_server(
    limits: ConnectionLimits = DEFAULT_LIMITS,
    server_limits: ServerLimits = DEFAULT_SERVER_LIMITS,
    tls: TlsSettings | None = None,
) -> AsyncIterator[EchoServer]:
    server = EchoServer()
    server.tls = None if tls is None else ServerTls(tls, SystemClock())
    server.budget = ConnectionBudget(server.clock, server_limits)
    server.listener = Server(
        Router(server, ROUTES),
        server.clock,
        limits=limits,
        on_closed=server.closed.append,
        tls=server.tls,
        budget=server.budget,
    )
    server.port = await server.listener.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.listener.stop()


def echo_request(text: str = "", *, body_size: int = 0, opaque: int = 0) -> Command:
    header = EchoHeader(text=text, body_size=body_size)
    return Command(ECHO, opaque, fields=fields_of(header))


def echoed_text(response: Command) -> str:
    return field_texts(response.fields)["text"]
