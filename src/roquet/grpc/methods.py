"""The methods of apache.rocketmq.v2.MessagingService, and how calls get to them.

A method answers at once with a response, or later by the call itself. What it refuses is a status
of RocketMQ in an answer of its kind; only a fault of ours, or of the bytes, ends a call of gRPC.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, final

import msgspec
from google.protobuf.message import DecodeError

from roquet.grpc.calls import Call, EndpointFigures, GrpcStatus
from roquet.grpc.codes import Code, RefusedCall, refusal_status
from roquet.grpc.connection import FastCalls, GrpcConnection, MessageStream
from roquet.grpc.schema import SERVICE, Message, pb
from roquet.grpc.signatures import of_end, of_group, of_receipt, of_receive, of_route, of_sends
from roquet.grpc.telemetry import SettingsTaker, Telemetry, heartbeat, notify_termination
from roquet.net.errors import Refused
from roquet.net.router import Need
from roquet.protocol.errors import ProtocolError

log = logging.getLogger(__name__)

# As Apache's proxy answers them, too.
UNIMPLEMENTED: Final = (
    "PullMessage",
    "UpdateOffset",
    "GetOffset",
    "QueryOffset",
    "SyncLiteSubscription",
)
TELEMETRY: Final = f"{SERVICE}Telemetry"

# The answer; None if the call is answered later. Raises Refused.
Handle = Callable[[Call, Message], Message | None]


class Service(SettingsTaker, Protocol):
    """What answers calls: the broker of this process, or a cluster.

    While `unavailable` says why, no call is answered. `clients` are the connected ones.
    """

    figures: EndpointFigures

    def begin_fast_calls(self, connection: GrpcConnection) -> FastCalls | None:
        """What takes calls that came together and leave nothing to decide, if anything."""

    def end_calls(self) -> None:
        """All of them are taken."""

    def query_route(self, call: Call, request: Message) -> Message | None: ...

    def query_assignment(self, call: Call, request: Message) -> Message | None: ...

    def send_message(self, call: Call, request: Message) -> Message | None: ...

    def end_transaction(self, call: Call, request: Message) -> Message | None: ...

    def recall_message(self, call: Call, request: Message) -> Message | None: ...

    def receive_message(self, call: Call, request: Message) -> Message | None: ...

    def ack_message(self, call: Call, request: Message) -> Message | None: ...

    def change_invisible_duration(self, call: Call, request: Message) -> Message | None: ...

    def forward_to_dlq(self, call: Call, request: Message) -> Message | None: ...


class Method(msgspec.Struct, frozen=True):
    request: Any
    response: Any
    needs: Callable[[Message], Iterable[Need]]
    handle: Handle


def _methods(service: Service) -> Mapping[str, Method]:
    def method(
        name: str, needs: Callable[[Message], Iterable[Need]], handle: Handle
    ) -> tuple[str, Method]:
        request, response = getattr(pb, f"{name}Request"), getattr(pb, f"{name}Response")
        return SERVICE + name, Method(request, response, needs, handle)

    clients = service.clients
    return dict(
        (
            method("QueryRoute", of_route, service.query_route),
            method("QueryAssignment", of_receipt, service.query_assignment),
            method("Heartbeat", of_group, lambda call, _: heartbeat(clients, call)),
            method(
                "NotifyClientTermination",
                of_group,
                lambda call, _: notify_termination(clients, call),
            ),
            method("SendMessage", of_sends, service.send_message),
            method("EndTransaction", of_end, service.end_transaction),
            method("RecallMessage", of_end, service.recall_message),
            method("ReceiveMessage", of_receive, service.receive_message),
            method("AckMessage", of_receipt, service.ack_message),
            method("ChangeInvisibleDuration", of_receipt, service.change_invisible_duration),
            method("ForwardMessageToDeadLetterQueue", of_receipt, service.forward_to_dlq),
        )
    )


@final
class Endpoint:
    """Finds the methods of calls."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._methods = _methods(service)

    def open_call(self, call: Call) -> MessageStream | None:
        figures = self._service.figures
        method = self._methods.get(call.method)
        if method is None and call.method != TELEMETRY:
            figures.unknown_count += 1
            return None
        figures.begun[call.method] += 1
        call.figures = figures
        if method is None:
            return Telemetry(self._service, call)
        return _Request(self._service, call, method)

    def begin_fast_calls(self, connection: GrpcConnection) -> FastCalls | None:
        return self._service.begin_fast_calls(connection)

    def end_calls(self) -> None:
        self._service.end_calls()


@final
class _Request:
    """A call with one message."""

    __slots__ = ("_call", "_message", "_method", "_service")

    def __init__(self, service: Service, call: Call, method: Method) -> None:
        self._service = service
        self._call = call
        self._method = method
        self._message: bytes | None = None

    def receive(self, message: bytes) -> None:
        if self._message is not None:
            self._call.finish(GrpcStatus.INVALID_ARGUMENT, "a request is one message")
        self._message = message

    def end(self) -> None:
        call, method, service = self._call, self._method, self._service
        if service.unavailable is not None:
            call.finish(GrpcStatus.UNAVAILABLE, service.unavailable)
            return
        try:
            request = method.request.FromString(self._message or b"")
        except DecodeError as error:
            call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
            return
        try:
            if not call.client_id:
                raise RefusedCall(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing")  # noqa: TRY301
            if service.is_guarded:
                service.check_access(call, method.needs(request))
            response = method.handle(call, request)
        except Refused as refused:
            response = method.response(status=refusal_status(refused))
        except ProtocolError as error:
            refused_by = RefusedCall(Code.INTERNAL_SERVER_ERROR, str(error))
            response = method.response(status=refusal_status(refused_by))
        except Exception:
            # One bad request must not end the connection.
            log.exception("%s failed", call.method)
            call.finish(GrpcStatus.INTERNAL, "internal error")
            return
        if response is not None:
            call.answer(response.SerializeToString())
