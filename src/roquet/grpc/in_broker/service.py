"""The broker of this process as what answers calls."""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, final

from roquet.broker.broker import Broker
from roquet.broker.membership import connection_lost
from roquet.grpc.calls import Call, EndpointFigures, GrpcStatus
from roquet.grpc.clients import GrpcClient, GrpcClients
from roquet.grpc.codes import refusal_status
from roquet.grpc.connection import GrpcConnection
from roquet.grpc.in_broker.ack_turn import AckTurn
from roquet.grpc.in_broker.acking import ack_message, change_invisible_duration, forward_to_dlq
from roquet.grpc.in_broker.fast_calls import FastCalls
from roquet.grpc.in_broker.receiving import receive_message
from roquet.grpc.in_broker.registration import Held, register, release, renew
from roquet.grpc.in_broker.remote_topics import RemoteTopics
from roquet.grpc.in_broker.routing import RemoteTopic, query_assignment, query_route
from roquet.grpc.in_broker.sending import end_transaction, recall_message, send_message
from roquet.grpc.names import topic_name
from roquet.grpc.schema import Message, pb
from roquet.grpc.settings import group_of, merged_settings
from roquet.grpc.signatures import CallRules, check_signature
from roquet.net.errors import Refused
from roquet.net.router import Need
from roquet.net.service import Services

_RESTARTS: Final = "the broker restarts"

AnswerRoute = Callable[[Broker, Message, RemoteTopic], Message]


@final
class BrokerService:
    """`serving` is the current broker, None while it restarts.

    `services` are for calls that wait for a name server.
    """

    def __init__(
        self,
        serving: Callable[[], Broker | None],
        services: Services,
        figures: EndpointFigures,
    ) -> None:
        self._serving = serving
        self.figures = figures
        self._services = services
        self._remote_topics = RemoteTopics()
        self._ack_turn = AckTurn(serving)
        self.clients: GrpcClients[Held] = GrpcClients(self)
        # Those of the broker that served last.
        self._fast_calls: FastCalls | None = None

    def begin_fast_calls(self, connection: GrpcConnection) -> FastCalls | None:
        broker = self._serving()
        if broker is None or broker.access.guard is not None:
            return None  # With access control, the rights of each call are looked up.
        if self._fast_calls is None or self._fast_calls.broker is not broker:
            self._fast_calls = FastCalls(broker, self.figures, self._ack_turn, self.clients)
        self._fast_calls.begin(connection)
        return self._fast_calls

    def end_calls(self) -> None:
        self._ack_turn.flush()

    @property
    def unavailable(self) -> str | None:
        return _RESTARTS if self._serving() is None else None

    @property
    def _broker(self) -> Broker:
        broker = self._serving()
        assert broker is not None, "no call is answered while it is unavailable"
        return broker

    def renew_held(self) -> None:
        broker = self._serving()
        if broker is not None and not broker.config.is_slave:
            self.figures.renewed_count += renew(broker, self.clients)

    # Clients.

    def register(self, client: GrpcClient[Held]) -> None:
        register(self._broker, client)

    def unregister(self, client: GrpcClient[Held], held: Collection[Held]) -> None:
        broker = self._serving()
        if broker is not None:
            connection_lost(broker, client)
            for each in held:
                release(broker, each)

    @property
    def is_guarded(self) -> bool:
        return self._broker.access.guard is not None

    def check_access(self, call: Call, needs: Iterable[Need]) -> None:
        """Raises RefusedCall. Without access control everything is allowed."""
        broker = self._broker
        access, config = broker.access, broker.config
        if access.guard is None:
            return
        rules = CallRules(
            None if access.accounts is None else access.accounts.rules,
            None if access.users is None else access.users.rules,
            has_policies=config.authorization,
            signature_age_s_max=config.grpc_signature_age_s_max,
        )
        check_signature(rules, call, needs, broker.clock.now_ms() // 1000)

    def take_settings(self, call: Call, settings: Message) -> None:
        name = group_of(settings)
        group = None if name is None else self._broker.tables.groups.find(name)
        self.clients.take_settings(call, merged_settings(settings, group))

    # Methods.

    def query_route(self, call: Call, request: Message) -> Message | None:
        return self._routed(call, request, query_route, pb.QueryRouteResponse)

    def query_assignment(self, call: Call, request: Message) -> Message | None:
        return self._routed(call, request, query_assignment, pb.QueryAssignmentResponse)

    def _routed(
        self, call: Call, request: Message, answer: AnswerRoute, response: Any
    ) -> Message | None:
        """At once, or when a name server has answered. Raises Refused."""
        broker = self._broker
        known = self._remote_topics.known(broker, topic_name(request.topic))
        if known is not None:
            return answer(broker, request, known)
        self._services.once(call.method, lambda: self._route_later(call, request, answer, response))
        return None

    async def _route_later(
        self, call: Call, request: Message, answer: AnswerRoute, response: Any
    ) -> None:
        found = await self._remote_topics.find(self._broker, topic_name(request.topic))
        broker = self._serving()
        if broker is None:
            call.finish(GrpcStatus.UNAVAILABLE, _RESTARTS)
            return
        try:
            answered = answer(broker, request, found)
        except Refused as refused:
            answered = response(status=refusal_status(refused))
        call.answer(answered.SerializeToString())

    def send_message(self, call: Call, request: Message) -> None:
        send_message(self._broker, call, request)

    def end_transaction(self, call: Call, request: Message) -> None:
        end_transaction(self._broker, call, request)

    def recall_message(self, call: Call, request: Message) -> None:
        recall_message(self._broker, call, request)

    def receive_message(self, call: Call, request: Message) -> None:
        self._ack_turn.flush()
        receive_message(self._broker, self.clients.of(call), call, request)

    def ack_message(self, call: Call, request: Message) -> None:
        ack_message(self._broker, self._ack_turn, self.clients.find(call), call, request)

    def change_invisible_duration(self, call: Call, request: Message) -> None:
        self._ack_turn.flush()
        change_invisible_duration(self._broker, self.clients.find(call), call, request)

    def forward_to_dlq(self, call: Call, request: Message) -> None:
        self._ack_turn.flush()
        forward_to_dlq(self._broker, self.clients.find(call), call, request)
