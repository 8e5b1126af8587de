"""What brokers ask a member of a group: that the group changed, and what operators want of it."""

from collections.abc import Mapping
from typing import Final, Protocol

from roquet.client.errors import BadArgument
from roquet.client.group.membership import Membership
from roquet.client.queue_ref import QueueRef, queue_ref, wire_queue
from roquet.client.received import ReceivedMessage, received_of
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, RequestRoute, on
from roquet.protocol.bodies.body import QueueTable, read_body, write_body
from roquet.protocol.bodies.clients import (
    ConsumerRunningInfo,
    DirectConsumeResult,
)
from roquet.protocol.bodies.offsets import (
    ConsumerStatus,
    ResetOffsetList,
    ResetOffsets,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.headers.clients import (
    ConsumeDirectlyHeader,
    RunningInfoHeader,
)
from roquet.protocol.headers.groups import ConsumersChangedHeader
from roquet.protocol.headers.offsets import (
    ConsumerStatusHeader,
    ResetOffsetHeader,
)


class Asked(Protocol):
    """What is asked; queues are those of brokers, with their namespace."""

    membership: Membership

    def move(self, queue: QueueRef, offset: int) -> None:
        """Goes on there if it reads the queue, whatever is being delivered now."""

    def positions(self) -> Mapping[QueueRef, int]:
        """How far it is in each queue, where that is known."""

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo: ...

    async def consume_directly(self, message: ReceivedMessage) -> DirectConsumeResult:
        """One message out of turn; it changes no offset. Raises BadArgument without a listener."""


def members_changed(member: Asked, request: Request[ConsumersChangedHeader]) -> Reply:
    if request.header.consumer_group == member.membership.group:
        member.membership.rebalance.wake()
    return Reply()


def reset_offsets(member: Asked, request: Request[ResetOffsetHeader]) -> Reply:
    """An operator moved the group. Java's pull consumers do not follow; ours do."""
    _check_group(member, request.header.group)
    for queue, offset in _new_offsets(request.body).items():
        member.move(queue, offset)
    return Reply()


def tell_status(member: Asked, request: Request[ConsumerStatusHeader]) -> Reply:
    _check_group(member, request.header.group)
    table = {
        wire_queue(queue): offset
        for queue, offset in member.positions().items()
        if queue.topic == request.header.topic
    }
    return Reply(body=write_body(ConsumerStatus(message_queue_table=QueueTable(table))))


def tell_running_info(member: Asked, request: Request[RunningInfoHeader]) -> Reply:
    _check_group(member, request.header.consumer_group)
    info = member.running_info(has_stacks=request.header.jstack_enable)
    return Reply(body=write_body(info))


def consume_directly(member: Asked, request: Request[ConsumeDirectlyHeader]) -> Deferred:
    header = request.header
    _check_group(member, header.consumer_group)
    namespace = member.membership.config.namespace
    message = received_of(request.body, header.broker_name or "", namespace)
    deferred = Deferred(request)

    async def consume() -> None:
        try:
            result = await member.consume_directly(message)
        except BadArgument as refusal:
            deferred.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=str(refusal)))
        else:
            deferred.answer(Reply(body=write_body(result)))

    member.membership.instance.services.once("consume directly", consume)
    return deferred


def _check_group(member: Asked, group: str) -> None:
    if group != member.membership.group:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer of group {group[:200]!r} is here")


def _new_offsets(body: bytes) -> dict[QueueRef, int]:
    """In one of two forms: brokers do not always know what language a client is written in."""
    try:
        table = read_body(ResetOffsets, body).offset_table
    except BadBody:
        listed = read_body(ResetOffsetList, body).offset_table
        return {queue_ref(each): each.offset for each in listed}
    return {queue_ref(queue): offset for queue, offset in table.items()}


ROUTES: Final[tuple[RequestRoute[Asked], ...]] = (
    on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumersChangedHeader, members_changed),
    on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader, reset_offsets),
    on(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusHeader, tell_status),
    on(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, tell_running_info),
    on(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader, consume_directly),
)
