"""From a request code to a typed handler, and from its result to a reply.

A handler is a function in a table:

    ROUTES = (on(RequestCode.PULL_MESSAGE, PullMessageHeader, pull_message), ...)

It answers at once with a `Reply` (or with the bytes of one, where templates exist),
raises `Refused`, or returns `Deferred` or `DEFERRED` and answers later.

A route declares the rights that its request `needs`. With a guard, the router identifies the
signer before the header is read, and checks the rights of that account before the handler runs, so
no handler can forget it; a route without `needs` is for administrators.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, final

import msgspec

from roquet.net.connection import Connection
from roquet.net.errors import Refused, TlsRequired
from roquet.process_limits import shortage_remedy
from roquet.protocol.acl import Right
from roquet.protocol.codes import CommandFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import Header, header_reader
from roquet.protocol.frame import SERIALIZER_JSON, Frame
from roquet.protocol.templates.reply_frame import reply_frame

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Header)
# A handler of a header also accepts headers derived from it: both forms of a send.
H_co = TypeVar("H_co", bound=Header, covariant=True)
S = TypeVar("S")  # what the handlers of one table work on: a broker, a name server

_RESPONSE: Final = int(CommandFlag.RESPONSE)
_ONEWAY: Final = int(CommandFlag.ONEWAY)


class Request(msgspec.Struct, Generic[H_co]):
    """What a handler gets: the typed header, the command and its connection.

    `account` is the account that signed it, where there is a guard and it needed one.
    """

    header: H_co
    command: Command
    connection: Connection
    account: str | None = None

    @property
    def sender(self) -> str:
        """For logs: which account, and from where."""
        peer = self.connection.peer
        return peer if self.account is None else f"account {self.account} at {peer}"

    @property
    def body(self) -> bytes:
        return self.command.body


class Reply(msgspec.Struct, frozen=True):
    """What a handler returns; without a header `extFields` is present but empty."""

    code: ResponseCode = ResponseCode.SUCCESS
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


@final
class Deferred:
    """A request that is answered later, by the owner of this object.

    The owner also owns the deadline: it must call `answer` or `answer_by` in the end. `on_lost` is
    called when the connection is lost first.
    """

    __slots__ = ("_command", "_connection", "_on_lost")

    def __init__(
        self, request: Request[Any], on_lost: Callable[["Deferred"], None] | None = None
    ) -> None:
        """Raises Refused when too many requests of the connection are deferred."""
        self._command = request.command
        self._connection: Connection | None = request.connection
        self._on_lost = on_lost
        request.connection.add_deferred(self)

    @property
    def is_waiting(self) -> bool:
        return self._connection is not None

    def answer(self, answer: "Reply | ReplyDeferred | bytes") -> None:
        """Answers once; later answers are ignored, because two wakers may race.

        After `DEFERRED`, `Connection.send_deferred` sends the reply.
        """
        if self._connection is not None:
            self._finish(self._connection, encode_answer(self._command, answer))

    def answer_by(self, work: Callable[[], "Reply | ReplyDeferred | bytes | None"]) -> None:
        """Answers with what `work` returns or raises, like a handler; None means: not yet."""
        if self._connection is None or not self._connection.is_open:
            return  # The reply could not be sent, and the work may be large.
        try:
            answer = work()
            if answer is None:
                return
            frame = encode_answer(self._command, answer)
        except Exception as error:  # noqa: BLE001  One bad request must not stop its waker.
            frame = _failure(self._connection, self._command, error)
        self._finish(self._connection, frame)

    def drop(self) -> None:
        self._connection = None
        if self._on_lost is not None:
            self._on_lost(self)

    def _finish(self, connection: Connection, frame: bytes | None) -> None:
        self._connection = None
        connection.remove_deferred(self)
        if frame is not None:
            connection.send(frame)


@final
class ReplyDeferred:
    """The type of `DEFERRED`: the request was counted with `Connection.defer`.

    It costs less than `Deferred`: there is no object per request, only a frame that is sent with
    `Connection.send_deferred`.
    """


DEFERRED: Final = ReplyDeferred()
Answer = Reply | Deferred | ReplyDeferred | bytes


class Need(msgspec.Struct, frozen=True):
    """A right on a topic; or on a group, which is called by the topic of its retries."""

    topic: str
    right: Right


class Needs(msgspec.Struct, Generic[S, H], frozen=True):
    """The rights that a request needs: `of` computes them, `text` describes them."""

    text: str
    of: Callable[[S, Request[H]], Iterable[Need]]
    # The header fields that `of` reads.
    fields: tuple[str, ...] = ()


class RequestRoute(msgspec.Struct, Generic[S], frozen=True):
    """One line of a table; `on` has checked that the handler fits the header."""

    code: RequestCode
    header: type[Header]
    handler: Callable[[S, Request[Any]], Answer]
    needs: Needs[S, Any] | None = None


def on(
    code: RequestCode,
    header: type[H],
    handler: Callable[[S, Request[H]], Answer],
    needs: Needs[S, H] | None = None,
) -> RequestRoute[S]:
    """With a guard, a route without `needs` is for administrators."""
    missing = set(needs.fields if needs else ()).difference(header.__struct_fields__)
    assert not missing, f"{header.__name__} has no {missing}"
    return RequestRoute(code, header, handler, needs)


class Guard(Protocol):
    def identify(self, command: Command, connection: Connection) -> Any:
        """The sender of a request, for `check`, before its header is read. Raises Refused."""

    def account_name(self, who: Any) -> str | None:
        """Of what `identify` returned; None if it needed no account."""

    def check(
        self, who: Any, server: Any, request: Request[Any], needs: Needs[Any, Any] | None
    ) -> None:
        """Returns if the sender has the rights that the request needs. Raises Refused."""


# Answers requests of one code.
_ReadyRoute: TypeAlias = Callable[[Command, Connection], Answer]


@final
class Router(Generic[S]):
    """Answers frames of any connection with the handlers of `routes`, working on `server`."""

    __slots__ = ("_admin_requires_tls", "_guard", "_ready", "_routes", "_server")

    def __init__(
        self,
        server: S,
        routes: Iterable[RequestRoute[S]],
        guard: Guard | None = None,
        *,
        admin_requires_tls: bool = False,
    ) -> None:
        """Without a guard every request is allowed.

        With `admin_requires_tls` requests of administrators are refused on plain connections.
        """
        self._server = server
        self._guard = guard
        self._admin_requires_tls = admin_requires_tls
        self._routes: dict[int, RequestRoute[S]] = {}
        for route in routes:
            assert route.code not in self._routes, f"two handlers for {route.code!r}"
            self._routes[route.code] = route
        # The routes that were used, with their header readers.
        self._ready: dict[int, _ReadyRoute] = {}

    def answer(self, connection: Connection, frame: Frame) -> bytes | None:
        """The bytes to send back now, if any.

        Raises BadHeader when the frame is not a command; nothing else escapes.
        """
        command = decode_command(frame)
        if command.flag & _RESPONSE:
            connection.accept_response(command)
            return None
        route = self._ready.get(command.code) or self._prepared(command.code)
        if route is None:
            return _unsupported(connection, command)
        return answer_by(lambda: route(command, connection), command, connection)

    def _prepared(self, code: int) -> _ReadyRoute | None:
        """Made for the first request: header readers for all routes would delay a start."""
        route = self._routes.get(code)
        if route is None:
            return None
        if self._guard is None:
            ready = _open(self._server, route)
        else:
            ready = _guarded(self._guard, self._server, route)
        if self._admin_requires_tls and route.needs is None:
            ready = _encrypted_only(ready)
        self._ready[code] = ready
        return ready


def _open(server: S, route: RequestRoute[S]) -> _ReadyRoute:
    read = _reader(route.header)
    handle = route.handler

    def answer(command: Command, connection: Connection) -> Answer:
        return handle(server, Request(read(command.fields), command, connection))

    return answer


def _guarded(guard: Guard, server: S, route: RequestRoute[S]) -> _ReadyRoute:
    read = _reader(route.header)

    def answer(command: Command, connection: Connection) -> Answer:
        who = guard.identify(command, connection)
        account = guard.account_name(who)
        request = Request(read(command.fields), command, connection, account)
        guard.check(who, server, request, route.needs)
        return route.handler(server, request)

    return answer


def _encrypted_only(ready: _ReadyRoute) -> _ReadyRoute:
    def answer(command: Command, connection: Connection) -> Answer:
        if not connection.is_encrypted:
            raise TlsRequired(command.code)
        return ready(command, connection)

    return answer


def answer_by(work: Callable[[], Answer], command: Command, connection: Connection) -> bytes | None:
    """The bytes to send now, if any, when `work` answers or refuses; no exception escapes."""
    try:
        answer = work()
        # The common case first: this runs for every request.
        if type(answer) is bytes and not command.flag & _ONEWAY:
            return answer
        return None if isinstance(answer, Deferred) else encode_answer(command, answer)
    except Exception as error:  # noqa: BLE001  One bad request must not end the connection.
        return _failure(connection, command, error)


def _reader(header: type[H]) -> Callable[[msgspec.Raw], H]:
    if header.__struct_fields__:
        return header_reader(header)
    # Requests without fields often have no `extFields`, and then no JSON to read.
    empty = header()
    return lambda _fields: empty


def encode_answer(command: Command, answer: Reply | ReplyDeferred | bytes) -> bytes | None:
    """The frame that answers a command now; None if that is one-way, or answered later."""
    if command.flag & _ONEWAY:
        return None
    if isinstance(answer, bytes):
        return answer
    if isinstance(answer, ReplyDeferred):
        return None
    frame = None
    if command.serializer == SERIALIZER_JSON:
        frame = reply_frame(command.opaque, answer.code, answer.header, answer.body, answer.remark)
    return frame or encode_command(
        reply_to(command, answer.code, header=answer.header, body=answer.body, remark=answer.remark)
    )


def _failure(connection: Connection, command: Command, error: Exception) -> bytes | None:
    if isinstance(error, Refused):
        reply = Reply(error.code, remark=error.remark)
    elif isinstance(error, ProtocolError):
        reply = Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
    elif isinstance(error, OSError) and (remedy := shortage_remedy(error)) is not None:
        # A file could not be opened, so nothing has happened; it is over when others are closed.
        connection.warn("refusing", f"refused request {command.code}: {error.strerror}; {remedy}")
        remark = f"too many open files: retry later, or have the operator {remedy}"
        reply = Reply(ResponseCode.SYSTEM_BUSY, remark=remark)
    else:
        log.error("request %d failed", command.code, exc_info=error)
        reply = Reply(ResponseCode.SYSTEM_ERROR, remark="internal error")
    connection.note_refusal(reply.code)
    return encode_answer(command, reply)


def _unsupported(connection: Connection, command: Command) -> bytes | None:
    connection.note_refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    # The space in front is Apache's.
    remark = f" request type {command.code} not supported"
    return encode_answer(command, Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
