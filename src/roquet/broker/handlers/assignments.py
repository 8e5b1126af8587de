"""Queues that a broker shares out among the members of a group (400), and whether these pull or pop
(401, 402).
"""

from typing import Final

from roquet.access.needs import EVERYTHING
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownGroup, UnknownTopic
from roquet.broker.handlers.answers import answer_when_saved, check_is_master, defer
from roquet.broker.handlers.needs import ASSIGNING
from roquet.broker.pop.assignment import STRATEGIES, average, popped_share, pulled_share
from roquet.net.errors import Refused
from roquet.net.router import Answer, Deferred, Reply, Request, on
from roquet.protocol.bodies.body import MessageQueue, read_body, write_body
from roquet.protocol.bodies.clients import MessageModel
from roquet.protocol.bodies.pop import (
    AssignmentQuery,
    MessageRequestMode,
    QueueAssignment,
    QueueAssignments,
    RequestModeSetting,
)
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.names import RETRY_PREFIX

_READ: Final = int(Permission.READ)


def query_assignment(broker: Broker, request: Request[NoFields]) -> Deferred:
    """Answers when the name servers have: a topic may have queues at other brokers, too."""
    query = read_body(AssignmentQuery, request.body)

    async def answer() -> Reply:
        queues = await _queues(broker, query.topic)
        assigned = _assigned(broker, query, queues)
        return Reply(body=write_body(QueueAssignments(message_queue_assignments=assigned)))

    return defer(broker.background, request, answer)


def _assigned(
    broker: Broker, query: AssignmentQuery, queues: list[MessageQueue]
) -> list[QueueAssignment]:
    setting = _setting(broker, query)
    members = broker.clients.consumers.find(query.consumer_group)
    strategy = STRATEGIES.get(query.strategy_name or "", average)
    if query.message_model == MessageModel.BROADCASTING or not broker.config.share_out_queues:
        share = queues
    elif members is None:
        share = []  # The client asks again, after its next heartbeat.
    elif setting.mode == MessageRequestMode.POP:
        share = popped_share(
            query.client_id, members.client_ids, queues, setting.pop_share_queue_num, strategy
        )
    else:
        share = pulled_share(query.client_id, members.client_ids, queues, strategy)
    return [QueueAssignment(message_queue=queue, mode=setting.mode) for queue in share]


def _setting(broker: Broker, query: AssignmentQuery) -> RequestModeSetting:
    found = broker.tables.request_modes.find(query.topic, query.consumer_group)
    if found is not None:
        return found
    mode = broker.config.request_mode
    if query.topic.startswith(RETRY_PREFIX):
        mode = MessageRequestMode.PULL
    return RequestModeSetting(
        consumer_group=query.consumer_group,
        mode=mode,
        pop_share_queue_num=broker.config.pop_share_count,
        topic=query.topic,
    )


async def _queues(broker: Broker, topic: str) -> list[MessageQueue]:
    """Of all brokers that have the topic; of this one, if no name server knows it."""
    route = await broker.replication.others.route_of(topic)
    counts = {}
    if route is not None:
        counts = {
            each.broker_name: each.read_queue_nums
            for each in route.queue_datas
            if each.perm & _READ
        }
    own = broker.tables.topics.find(topic)
    if not counts and own is not None:
        counts = {broker.config.broker_name: own.read_queue_nums}
    return [
        MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)
        for name, count in counts.items()
        for queue_id in range(count)
    ]


def set_request_mode(broker: Broker, request: Request[NoFields]) -> Answer:
    check_is_master(broker.config)
    setting = read_body(RequestModeSetting, request.body)
    if setting.topic.startswith(RETRY_PREFIX):
        raise Refused(ResponseCode.NO_PERMISSION, "retry topics are always pulled")
    if setting.topic not in broker.tables.topics:
        raise UnknownTopic(setting.topic)
    if setting.consumer_group not in broker.tables.groups:
        raise UnknownGroup(setting.consumer_group)
    if setting.mode not in set(MessageRequestMode):
        raise Refused(
            ResponseCode.INVALID_PARAMETER, f"{setting.mode[:20]!r} is not a mode: PULL or POP"
        )
    broker.tables.request_modes.set(setting)
    return answer_when_saved(broker.background, request, broker.tables.savers.request_modes)


def get_all_request_modes(broker: Broker, _request: Request[NoFields]) -> Reply:
    return Reply(body=write_body(broker.tables.request_modes.snapshot()))


ROUTES = (
    on(RequestCode.QUERY_ASSIGNMENT, NoFields, query_assignment, needs=ASSIGNING),
    on(RequestCode.SET_MESSAGE_REQUEST_MODE, NoFields, set_request_mode),
    on(
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        NoFields,
        get_all_request_modes,
        needs=EVERYTHING,
    ),
)
