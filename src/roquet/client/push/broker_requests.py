"""What brokers ask a push consumer: that its group changed, and what operators want of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from roquet.client.errors import BadArgument
from roquet.client.hooks import ConsumeOutcome
from roquet.client.push.listener_calls import outcome_of
from roquet.client.push.running_info import running_info, status_of
from roquet.client.queue_ref import QueueRef
from roquet.client.received import received_of
from roquet.net.errors import Refused
from roquet.net.router import Parked, Reply, Request, Route, on
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offset_table import ResetOffsetList, ResetOffsets
from roquet.protocol.bodies.running_info import ConsumeResult, DirectConsumeResult
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.headers.clients import (
    ConsumeDirectlyHeader,
    ConsumersChangedHeader,
    RunningInfoHeader,
)
from roquet.protocol.headers.offsets import ConsumerStatusHeader, ResetOffsetHeader

if TYPE_CHECKING:
    from roquet.client.push.member import GroupMember

_RESULTS: Final[Mapping[ConsumeOutcome, ConsumeResult]] = {
    ConsumeOutcome.SUCCESS: ConsumeResult.SUCCESS,
    ConsumeOutcome.FAILED: ConsumeResult.LATER,
    ConsumeOutcome.TIMED_OUT: ConsumeResult.LATER,
    ConsumeOutcome.RAISED: ConsumeResult.THROW_EXCEPTION,
}


def members_changed(member: "GroupMember", request: Request[ConsumersChangedHeader]) -> Reply:
    if request.header.consumer_group == member.group:
        member.rebalance.wake()
    return Reply()


def reset_offsets(member: "GroupMember", request: Request[ResetOffsetHeader]) -> Reply:
    """An operator moved the group: go on there, whatever is being delivered now."""
    _check_group(member, request.header.group)
    for queue, offset in _new_offsets(request.body).items():
        reader = member.assignment.readers.get(queue)
        if reader is not None:
            reader.move(offset)
    return Reply()


def tell_status(member: "GroupMember", request: Request[ConsumerStatusHeader]) -> Reply:
    _check_group(member, request.header.group)
    return Reply(body=write_body(status_of(member, request.header.topic)))


def tell_running_info(member: "GroupMember", request: Request[RunningInfoHeader]) -> Reply:
    header = request.header
    _check_group(member, header.consumer_group)
    return Reply(body=write_body(running_info(member, has_stacks=header.jstack_enable)))


def consume_directly(member: "GroupMember", request: Request[ConsumeDirectlyHeader]) -> Parked:
    """One message out of turn; it changes no offset."""
    header = request.header
    _check_group(member, header.consumer_group)
    message = received_of(request.body, header.broker_name or "", member.config.namespace)
    parked = Parked(request)

    async def listen() -> None:
        begin_s = member.clock.monotonic_s()
        try:
            error = await member.listen_to(message)
        except BadArgument as refusal:
            parked.answer(Reply(ResponseCode.SYSTEM_ERROR, remark=str(refusal)))
            return
        result = DirectConsumeResult(
            consume_result=_RESULTS[outcome_of(error)],
            order=member.config.orderly,
            remark=None if error is None else repr(error),
            spent_time_mills=round((member.clock.monotonic_s() - begin_s) * 1000),
        )
        parked.answer(Reply(body=write_body(result)))

    member.instance.services.once("consume directly", listen)
    return parked


def _check_group(member: "GroupMember", group: str) -> None:
    if group != member.group:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer of group {group[:200]!r} is here")


def _new_offsets(body: bytes) -> dict[QueueRef, int]:
    """In one of two forms: brokers do not always know what language a client is written in."""
    try:
        table = read_body(ResetOffsets, body).offset_table
    except BadBody:
        listed = read_body(ResetOffsetList, body).offset_table
        return {
            QueueRef(each.topic, each.broker_name, each.queue_id): each.offset for each in listed
        }
    return {
        QueueRef(queue.topic, queue.broker_name, queue.queue_id): offset
        for queue, offset in table.items()
    }


ROUTES: Final[tuple[Route["GroupMember"], ...]] = (
    on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumersChangedHeader, members_changed),
    on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader, reset_offsets),
    on(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusHeader, tell_status),
    on(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, tell_running_info),
    on(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader, consume_directly),
)
