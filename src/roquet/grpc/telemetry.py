"""Telemetry: the stream that clients send their settings by, and get commands from. With it, the
other calls that are about clients: Heartbeat and NotifyClientTermination.

Settings come back with what the server decides: how often and how late messages are retried, how
long receives wait, whether a group is ordered.
"""

from collections.abc import Callable
from typing import Final, final

from google.protobuf.message import DecodeError

from roquet.broker.broker import Broker
from roquet.grpc.calls import Call, GrpcStatus
from roquet.grpc.clients import GrpcClients, answered_settings, register
from roquet.grpc.codes import Code, RefusedCall, status_of
from roquet.grpc.message_form import duration_of
from roquet.grpc.names import group_name, topic_name
from roquet.grpc.receiving import BATCH_COUNT_MAX, POLL_S_MAX
from roquet.grpc.schema import Message, pb
from roquet.grpc.sending import BODY_SIZE_MAX
from roquet.grpc.signatures import check_access, of_settings
from roquet.net.errors import Refused
from roquet.protocol.bodies.groups import GroupConfig

# Of a producer that gets an error; SDKs bring their own if there is none.
_SEND_ATTEMPTS: Final = 3
_SEND_BACKOFF_MS: Final = (10, 1_000)
_BACKOFF_FACTOR: Final = 2.0
# Without a policy of its own a group retries after these times.
_RETRY_S: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600)
_LONGEST_RETRY_S: Final = 7200


@final
class Telemetry:
    """One stream; `serving` is the current broker, None while there is none."""

    def __init__(
        self, serving: Callable[[], Broker | None], clients: GrpcClients, call: Call
    ) -> None:
        self._serving = serving
        self._clients = clients
        self._call = call

    def receive(self, message: bytes) -> None:
        try:
            command = pb.TelemetryCommand.FromString(message)
        except DecodeError as error:
            self._call.finish(GrpcStatus.INVALID_ARGUMENT, str(error))
            return
        if not command.HasField("settings"):
            client = self._clients.find(self._call)
            if client is not None and client.telemetry is self._call:
                client.questions.answer(command)
            return
        broker = self._serving()
        if broker is None:
            self._call.finish(GrpcStatus.UNAVAILABLE, "the broker restarts")
            return
        try:
            check_access(broker, self._call, of_settings(command.settings))
            settings = merged_settings(broker, command.settings)
            self._clients.take_settings(broker, self._call, settings)
        except Refused as refused:
            # The stream itself is refused: SDKs read no status here.
            self._call.finish(GrpcStatus.INVALID_ARGUMENT, str(refused))
            return
        self._call.send(answered_settings(settings))

    def end(self) -> None:
        self._call.finish()


def merged_settings(broker: Broker, given: Message) -> Message:
    """Raises RefusedCall."""
    settings = pb.Settings()
    settings.CopyFrom(given)
    settings.metric.on = False
    if given.HasField("publishing"):
        for topic in given.publishing.topics:
            topic_name(topic)
        settings.publishing.max_body_size = BODY_SIZE_MAX
        settings.publishing.validate_message_type = True
        first_ms, longest_ms = _SEND_BACKOFF_MS
        settings.backoff_policy.CopyFrom(
            pb.RetryPolicy(
                max_attempts=_SEND_ATTEMPTS,
                exponential_backoff=pb.ExponentialBackoff(
                    initial=duration_of(first_ms),
                    max=duration_of(longest_ms),
                    multiplier=_BACKOFF_FACTOR,
                ),
            )
        )
    elif given.HasField("subscription"):
        name = group_name(given.subscription.group)
        for entry in given.subscription.subscriptions:
            topic_name(entry.topic)
        group = broker.tables.groups.find(name) or GroupConfig(group_name=name)
        settings.subscription.fifo = group.consume_message_orderly
        settings.subscription.receive_batch_size = BATCH_COUNT_MAX
        settings.subscription.long_polling_timeout.CopyFrom(duration_of(round(POLL_S_MAX * 1000)))
        settings.backoff_policy.CopyFrom(_retry_policy(group))
    else:
        raise RefusedCall(Code.BAD_REQUEST, "settings are of a producer or of a consumer")
    return settings


def _retry_policy(group: GroupConfig) -> Message:
    policy = pb.RetryPolicy(max_attempts=group.retry_max_times + 1)
    given = group.group_retry_policy
    if given is not None and given.type == "EXPONENTIAL" and given.exponential_retry_policy:
        retry = given.exponential_retry_policy
        policy.exponential_backoff.CopyFrom(
            pb.ExponentialBackoff(
                initial=duration_of(retry.initial),
                max=duration_of(retry.max),
                multiplier=retry.multiplier,
            )
        )
        return policy
    times_ms = [each * 1000 for each in (*_RETRY_S, _LONGEST_RETRY_S)]
    if given is not None and given.customized_retry_policy and given.customized_retry_policy.next:
        times_ms = given.customized_retry_policy.next
    policy.customized_backoff.next.extend(map(duration_of, times_ms))
    return policy


def heartbeat(broker: Broker, clients: GrpcClients, call: Call) -> Message:
    """Raises RefusedCall for a client whose settings are not known: it sends them again."""
    register(broker, clients.known(call))
    return pb.HeartbeatResponse(status=status_of(Code.OK))


def notify_termination(clients: GrpcClients, call: Call) -> Message:
    client = clients.find(call)
    if client is not None:
        clients.forget(client)
    return pb.NotifyClientTerminationResponse(status=status_of(Code.OK))
