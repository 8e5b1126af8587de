"""What brokers ask a pull consumer: that the group changed, and what operators want."""

from typing import TYPE_CHECKING, Final

from roquet.client.queue_ref import QueueRef
from roquet.net.errors import Refused
from roquet.net.router import Reply, Request, Route, on
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offset_table import ConsumerStatus, ResetOffsets
from roquet.protocol.bodies.queue_table import MessageQueue, QueueTable
from roquet.protocol.bodies.running_info import ConsumerRunningInfo, ProcessQueueInfo
from roquet.protocol.codes import VERSION_OURS, RequestCode, ResponseCode
from roquet.protocol.headers.clients import ConsumersChangedHeader, RunningInfoHeader
from roquet.protocol.headers.offsets import ConsumerStatusHeader, ResetOffsetHeader

if TYPE_CHECKING:
    from roquet.client.pull.member import PullMember


def members_changed(member: "PullMember", request: Request[ConsumersChangedHeader]) -> Reply:
    if request.header.consumer_group == member.group:
        member.rebalance.wake()
    return Reply()


def move(member: "PullMember", request: Request[ResetOffsetHeader]) -> Reply:
    """Java's pull consumers do not follow an operator; ours does."""
    _check_group(member, request.header.group)
    for queue, offset in read_body(ResetOffsets, request.body).offset_table.items():
        ref = QueueRef(queue.topic, queue.broker_name, queue.queue_id)
        if ref in member.prefetchers:
            member.seek(ref, offset)
            member.keeper.move(ref, offset)
    return Reply()


def tell_status(member: "PullMember", request: Request[ConsumerStatusHeader]) -> Reply:
    _check_group(member, request.header.group)
    table = {
        _wire(queue): each.position
        for queue, each in member.prefetchers.items()
        if queue.topic == request.header.topic and each.position is not None
    }
    return Reply(body=write_body(ConsumerStatus(message_queue_table=QueueTable(table))))


def tell_running_info(member: "PullMember", request: Request[RunningInfoHeader]) -> Reply:
    _check_group(member, request.header.consumer_group)
    config = member.config
    queues = {
        _wire(queue): ProcessQueueInfo(
            commit_offset=each.position or 0, cached_msg_count=each.cached_count
        )
        for queue, each in member.prefetchers.items()
    }
    info = ConsumerRunningInfo(
        properties={
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
            "PROP_NAMESERVER_ADDR": config.name_server,
            "PROP_CLIENT_VERSION": str(VERSION_OURS),
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": "0",
        },
        subscription_set=member.wishes.subscriptions.bodies(),
        mq_table=QueueTable(queues),
    )
    return Reply(body=write_body(info))


def _check_group(member: "PullMember", group: str) -> None:
    if group != member.group:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"group {group!r} has no consumer here")


def _wire(queue: QueueRef) -> MessageQueue:
    return MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


ROUTES: Final[tuple[Route["PullMember"], ...]] = (
    on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumersChangedHeader, members_changed),
    on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader, move),
    on(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusHeader, tell_status),
    on(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, tell_running_info),
)
