"""Telemetry: the stream that clients send their settings by, and get commands from. With it, the
other calls that are about clients: Heartbeat and NotifyClientTermination.
"""

from collections.abc import Iterable
from typing import Any, Protocol, final

from google.protobuf.message import DecodeError

from roquet.grpc.calls import Call, GrpcStatus
from roquet.grpc.clients import GrpcClients
from roquet.grpc.codes import Code, status_of
from roquet.grpc.schema import Message, pb
from roquet.grpc.signatures import of_settings
from roquet.net.errors import Refused
from roquet.net.router import Need


class SettingsTaker(Protocol):
    """What the stream needs of the service."""

    @property
    def unavailable(self) -> str | None: ...

    @property
    def clients(self) -> GrpcClients[Any]: ...

    @property
    def is_guarded(self) -> bool:
        """Whether there are rights to check."""

    def check_access(self, call: Call, needs: Iterable[Need]) -> None: ...

    def take_settings(self, call: Call, settings: Message) -> None:
        """Registers the client of the call, and answers. Raises Refused."""


@final
class Telemetry:
    """One stream."""

    def __init__(self, service: SettingsTaker, call: Call) -> None:
        self._service = service
        self._call = call

    def receive(self, message: bytes) -> None:
        call, service = self._call, self._service
        try:
            command = pb.TelemetryCommand.FromString(message)
        except DecodeError as error:
            call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
            return
        if not command.HasField("settings"):
            client = service.clients.find(call)
            if client is not None and client.telemetry is call:
                client.requests.answer(command)
        elif service.unavailable is not None:
            call.finish(GrpcStatus.UNAVAILABLE, service.unavailable)
        else:
            try:
                service.check_access(call, of_settings(command.settings))
                service.take_settings(call, command.settings)
            except Refused as refused:
                refuse_settings(call, refused)

    def end(self) -> None:
        self._call.finish()


def refuse_settings(call: Call, refused: Refused) -> None:
    """The stream itself is refused: SDKs read no status here."""
    call.finish(GrpcStatus.INVALID_ARGUMENT, str(refused))


def heartbeat(clients: GrpcClients[Any], call: Call) -> Message:
    """Raises Refused for a client whose settings are not known: it sends them again."""
    clients.beat(call)
    return pb.HeartbeatResponse(status=status_of(Code.OK))


def notify_termination(clients: GrpcClients[Any], call: Call) -> Message:
    client = clients.find(call)
    if client is not None:
        clients.forget(client)
    return pb.NotifyClientTerminationResponse(status=status_of(Code.OK))
