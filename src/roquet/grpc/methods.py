"""The methods of apache.rocketmq.v2.MessagingService, and how calls get to them.

A method answers at once with a response, or later by the call itself. What it refuses is a status
of RocketMQ in an answer of its kind; only a fault of ours, or of the bytes, ends a call of gRPC.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, final

import msgspec
from google.protobuf.message import DecodeError

from roquet.broker.broker import Broker
from roquet.grpc.acking import ack_message, change_invisible_duration, forward_to_dlq
from roquet.grpc.calls import Call, GrpcStatus
from roquet.grpc.clients import GrpcClients
from roquet.grpc.codes import Code, RefusedCall, refusal_status
from roquet.grpc.connection import MessageStream
from roquet.grpc.receiving import receive_message
from roquet.grpc.routing import query_assignment, query_route
from roquet.grpc.schema import SERVICE, Message, pb
from roquet.grpc.sending import end_transaction, recall_message, send_message
from roquet.grpc.signatures import (
    check_access,
    of_end,
    of_group,
    of_receipt,
    of_receive,
    of_route,
    of_sends,
)
from roquet.grpc.telemetry import Telemetry, heartbeat, notify_termination
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


class Method(msgspec.Struct, frozen=True):
    request: Any
    response: Any
    needs: Callable[[Message], Iterable[Need]]
    # The answer; None if the call is answered later.
    handle: Callable[[Broker, GrpcClients, Call, Message], Message | None]


def _methods() -> Mapping[str, Method]:
    def method(
        name: str, needs: Callable[[Message], Iterable[Need]], handle: Callable[..., Message | None]
    ) -> tuple[str, Method]:
        request, response = getattr(pb, f"{name}Request"), getattr(pb, f"{name}Response")
        return SERVICE + name, Method(request, response, needs, handle)

    return dict(
        (
            method("QueryRoute", of_route, lambda b, _, call, r: query_route(b, call, r)),
            method(
                "QueryAssignment", of_receipt, lambda b, _, call, r: query_assignment(b, call, r)
            ),
            method("Heartbeat", of_group, lambda b, clients, call, _: heartbeat(b, clients, call)),
            method(
                "NotifyClientTermination",
                of_group,
                lambda _b, clients, call, _r: notify_termination(clients, call),
            ),
            method("SendMessage", of_sends, lambda b, _, call, r: send_message(b, call, r)),
            method("EndTransaction", of_end, lambda b, _, call, r: end_transaction(b, call, r)),
            method("RecallMessage", of_end, lambda b, _, call, r: recall_message(b, call, r)),
            method(
                "ReceiveMessage",
                of_receive,
                lambda b, clients, call, r: receive_message(b, clients.of(call), call, r),
            ),
            method(
                "AckMessage",
                of_receipt,
                lambda b, clients, call, r: ack_message(b, clients.find(call), call, r),
            ),
            method(
                "ChangeInvisibleDuration",
                of_receipt,
                lambda b, clients, call, r: change_invisible_duration(
                    b, clients.find(call), call, r
                ),
            ),
            method(
                "ForwardMessageToDeadLetterQueue",
                of_receipt,
                lambda b, clients, call, r: forward_to_dlq(b, clients.find(call), call, r),
            ),
        )
    )


@final
class Endpoint:
    """Finds the methods of calls; `serving` is the current broker, None while there is none."""

    def __init__(self, serving: Callable[[], Broker | None]) -> None:
        self._serving = serving
        self._methods = _methods()
        self.clients = GrpcClients(serving)

    def open_call(self, call: Call) -> MessageStream | None:
        broker = self._serving()
        method = self._methods.get(call.method)
        if broker is None:
            call.finish(GrpcStatus.UNAVAILABLE, "the broker restarts")
            return _Ignored()
        if call.method == TELEMETRY:
            return Telemetry(self._serving, self.clients, call)
        return None if method is None else _Request(broker, self.clients, call, method)

    def close(self) -> None:
        self.clients.close()


@final
class _Ignored:
    def receive(self, message: bytes) -> None:
        pass

    def end(self) -> None:
        pass


@final
class _Request:
    """A call with one message."""

    __slots__ = ("_broker", "_call", "_clients", "_message", "_method")

    def __init__(self, broker: Broker, clients: GrpcClients, call: Call, method: Method) -> None:
        self._broker = broker
        self._clients = clients
        self._call = call
        self._method = method
        self._message: bytes | None = None

    def receive(self, message: bytes) -> None:
        if self._message is not None:
            self._call.finish(GrpcStatus.INVALID_ARGUMENT, "a request is one message")
        self._message = message

    def end(self) -> None:
        call, method = self._call, self._method
        try:
            request = method.request.FromString(self._message or b"")
        except DecodeError as error:
            call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
            return
        try:
            if not call.client_id:
                raise RefusedCall(Code.CLIENT_ID_REQUIRED, "the header x-mq-client-id is missing")  # noqa: TRY301
            check_access(self._broker, call, method.needs(request))
            response = method.handle(self._broker, self._clients, call, request)
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
