"""Pulls (11, and 361 of 5.x): messages of one queue, at once or when they come."""

from typing import Final

from roquet.access.needs import reading
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownTopic
from roquet.broker.handlers.answers import invalid
from roquet.broker.membership import group_settings
from roquet.broker.messages.pulls import answer_pull
from roquet.broker.messages.subscriptions import limits_of_pull
from roquet.net.errors import Refused
from roquet.net.router import Answer, Request, on
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.store.reading.queue_reading import QueueReadLimits

_READ: Final = int(Permission.READ)


def pull_message(broker: Broker, request: Request[PullMessageHeader]) -> Answer:
    broker.statistics.pulls.slow += 1
    return answer_pull(broker, request, _checked_limits(broker, request))


def _checked_limits(broker: Broker, request: Request[PullMessageHeader]) -> QueueReadLimits:
    """What the pull may bring. Raises Refused."""
    pull = request.header
    config = broker.config
    if not config.permission & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not readable")
    group = group_settings(broker, pull.consumer_group)
    if not group.consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"group {pull.consumer_group!r} may not consume")
    topic = broker.tables.topics.find(pull.topic)
    if topic is None:
        raise UnknownTopic(pull.topic)
    if not topic.perm & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"topic {pull.topic!r} is not readable")
    if not 0 <= pull.queue_id < topic.read_queue_nums:
        raise invalid(
            request.command,
            f"topic {pull.topic!r} has {topic.read_queue_nums} queues and no queue {pull.queue_id}",
        )
    members = broker.clients.consumers.find(pull.consumer_group)
    return limits_of_pull(pull, members, group, config)


ROUTES = (
    on(
        RequestCode.PULL_MESSAGE,
        PullMessageHeader,
        pull_message,
        needs=reading("topic", "consumer_group"),
    ),
    on(
        RequestCode.LITE_PULL_MESSAGE,
        PullMessageHeader,
        pull_message,
        needs=reading("topic", "consumer_group"),
    ),
)
