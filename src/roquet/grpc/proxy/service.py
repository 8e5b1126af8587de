"""A cluster as what answers calls: each call is a task that asks brokers, and then answers."""

from collections.abc import Collection, Coroutine, Iterable
from typing import Any, Final, final

from roquet.access.account_store import AccountStore
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.errors import ClientError
from roquet.clock import Clock
from roquet.grpc.calls import Call, EndpointFigures, GrpcStatus
from roquet.grpc.clients import GrpcClients
from roquet.grpc.codes import Code, RefusedCall, refusal_status
from roquet.grpc.connection import GrpcConnection
from roquet.grpc.names import group_name, topic_name
from roquet.grpc.proxy.cluster import Cluster, queues_of, refusal_of
from roquet.grpc.proxy.receiving import ProxyClient, Receiving, RenewedMessage
from roquet.grpc.proxy.sending import CheckBacks, Sending
from roquet.grpc.route_form import assignment_answer, route_answer
from roquet.grpc.schema import Message, pb
from roquet.grpc.settings import group_of, merged_settings
from roquet.grpc.signatures import CallRules, check_signature
from roquet.grpc.telemetry import refuse_settings
from roquet.net.errors import NetError, Refused
from roquet.net.router import Need, Reply, Request, Router, on
from roquet.net.service import Services
from roquet.protocol.bodies.clients import Heartbeat, ProducerData
from roquet.protocol.codes import RequestCode
from roquet.protocol.errors import ProtocolError
from roquet.protocol.headers.messages import CheckTransactionHeader

WHAT: Final = "proxy"
# Calls that wait for brokers; most of them are long polls.
CALL_COUNT_MAX: Final = 50_000

_CLOSING_S: Final = 2.0
_FAILED: Final = "the proxy stops, or has failed: see its log"


@final
class ProxyService:
    """To the cluster it is a client: a producer of what its own clients publish, known to all
    masters, so that each of them can ask about transactions.

    `services` own the tasks. Without `accounts` everybody may make every call.
    """

    unavailable: str | None = None

    def __init__(
        self,
        links: LinkSettings,
        services: Services,
        clock: Clock,
        timeout_s: float,
        accounts: AccountStore | None = None,
    ) -> None:
        """Raises BadArgument."""
        self._services = services
        self._clock = clock
        self._accounts = accounts
        # That clients publish: the producer groups of the proxy.
        self._topics: frozenset[str] = frozenset()
        router = Router(self, _ROUTES)
        participant = Participant(WHAT, self._heartbeat, router=router, registers_everywhere=True)
        self._instance = ClientInstance(participant, links, clock)
        self._cluster = Cluster(self._instance, timeout_s)
        self._sending = Sending(self._cluster)
        self._receiving = Receiving(self._cluster, services, clock.now_ms)
        self._call_count = 0
        self.figures = EndpointFigures()
        self.clients: GrpcClients[RenewedMessage] = GrpcClients(self)
        self._check_backs = CheckBacks(self._cluster, self.clients)

    async def open(self) -> None:
        """Name servers need not answer yet."""
        await self._instance.open()

    async def close(self) -> None:
        await self._receiving.until_given_back(_CLOSING_S)
        await self._instance.close()

    def check_transaction(self, request: Request[CheckTransactionHeader]) -> Reply:
        return self._check_backs.check(request)

    async def keep_held(self) -> None:
        """Called from time to time."""
        self.clients.forget_silent()
        await self._receiving.renew(self.clients)

    # Clients.

    def register(self, client: ProxyClient) -> None:
        """Raises RefusedCall."""
        _ = client.subscriptions  # They can be read.
        self._count_topics()

    def unregister(self, _client: ProxyClient, held: Collection[RenewedMessage]) -> None:
        self._receiving.give_back_held(held)
        self._count_topics()

    def _count_topics(self) -> None:
        old = self._topics
        self._topics = frozenset(topic for client in self.clients for topic in client.topics)
        if self._topics - old:
            self._instance.heartbeats.forget_registered()
            self._instance.beat_soon()

    def _heartbeat(self, client_id: str) -> Heartbeat:
        producers = [ProducerData(group_name=topic) for topic in sorted(self._topics)]
        return Heartbeat(client_id=client_id, producer_data_set=producers)

    @property
    def is_guarded(self) -> bool:
        return self._accounts is not None

    def check_access(self, call: Call, needs: Iterable[Need]) -> None:
        """Raises RefusedCall."""
        if self._accounts is None:
            return
        rules = CallRules(self._accounts.rules, None, has_policies=False, signature_age_s_max=0)
        check_signature(rules, call, needs, self._clock.now_ms() // 1000)

    def take_settings(self, call: Call, settings: Message) -> None:
        self._services.once("settings", lambda: self._take_settings(call, settings))

    async def _take_settings(self, call: Call, settings: Message) -> None:
        try:
            name = group_of(settings)
            group = None if name is None else await self._cluster.group(name)
            merged = merged_settings(settings, group)
            if call.is_open:
                self.clients.take_settings(call, merged)
        except Refused as refused:
            refuse_settings(call, refused)
        except (ClientError, NetError) as error:
            call.finish(GrpcStatus.UNAVAILABLE, str(error))

    # Methods.

    def begin_fast_calls(self, _connection: GrpcConnection) -> None:
        """Every call is one of the cluster."""

    def end_calls(self) -> None:
        """Nothing is kept for several calls."""

    def query_route(self, call: Call, request: Message) -> None:
        self._answer(call, pb.QueryRouteResponse, self._query_route(request))

    def query_assignment(self, call: Call, request: Message) -> None:
        self._answer(call, pb.QueryAssignmentResponse, self._query_assignment(request))

    def send_message(self, call: Call, request: Message) -> None:
        work = self._sending.send(request, self._clock.now_ms())
        self._answer(call, pb.SendMessageResponse, work)

    def end_transaction(self, call: Call, request: Message) -> None:
        self._answer(call, pb.EndTransactionResponse, self._sending.end_transaction(request))

    def recall_message(self, call: Call, request: Message) -> None:
        self._answer(call, pb.RecallMessageResponse, self._sending.recall(request))

    def receive_message(self, call: Call, request: Message) -> None:
        work = self._receiving.receive(self.clients.of(call), call, request)
        self._answer(call, pb.ReceiveMessageResponse, work)

    def ack_message(self, call: Call, request: Message) -> None:
        work = self._receiving.ack(self.clients.find(call), request)
        self._answer(call, pb.AckMessageResponse, work)

    def change_invisible_duration(self, call: Call, request: Message) -> None:
        work = self._receiving.change(self.clients.find(call), request)
        self._answer(call, pb.ChangeInvisibleDurationResponse, work)

    def forward_to_dlq(self, call: Call, request: Message) -> None:
        work = self._receiving.forward(self.clients.find(call), request)
        self._answer(call, pb.ForwardMessageToDeadLetterQueueResponse, work)

    async def _query_route(self, request: Message) -> Message:
        topic = topic_name(request.topic)
        route = await self._cluster.newest_route(topic)
        types = await self._cluster.types(topic)
        return route_answer(topic, queues_of(route), types, lambda _name: request.endpoints)

    async def _query_assignment(self, request: Message) -> Message:
        topic, name = topic_name(request.topic), group_name(request.group)
        route = await self._cluster.route(topic)
        types = await self._cluster.types(topic)
        group = await self._cluster.group(name)
        return assignment_answer(
            topic,
            queues_of(route),
            types,
            lambda _name: request.endpoints,
            is_ordered=group is not None and group.consume_message_orderly,
        )

    def _answer(
        self, call: Call, response: Any, work: Coroutine[None, None, Message | None]
    ) -> None:
        """Raises RefusedCall."""
        if self._call_count >= CALL_COUNT_MAX:
            work.close()
            text = f"{CALL_COUNT_MAX} calls wait for brokers already"
            raise RefusedCall(Code.TOO_MANY_REQUESTS, text)
        self._services.once(call.method, lambda: self._answered(call, response, work))

    async def _answered(
        self, call: Call, response: Any, work: Coroutine[None, None, Message | None]
    ) -> None:
        self._call_count += 1
        try:
            answer = await _outcome(response, work)
            if answer is not None:
                call.answer(answer.SerializeToString())
        finally:
            self._call_count -= 1
            # Of a call that is answered, this has no effect.
            call.finish(GrpcStatus.UNAVAILABLE, _FAILED)


async def _outcome(response: Any, work: Coroutine[None, None, Message | None]) -> Message | None:
    """What is refused is an answer, too."""
    try:
        return await work
    except Refused as refused:
        return response(status=refusal_status(refused))
    except (ClientError, NetError) as error:
        return response(status=refusal_status(refusal_of(error)))
    except ProtocolError as error:
        refused_by = RefusedCall(Code.INTERNAL_SERVER_ERROR, str(error))
        return response(status=refusal_status(refused_by))


_ROUTES: Final = (
    on(
        RequestCode.CHECK_TRANSACTION_STATE,
        CheckTransactionHeader,
        ProxyService.check_transaction,
    ),
)
