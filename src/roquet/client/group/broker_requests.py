"""What brokers ask a member of a group: to rebalance, and what operators want of it.

Running information has the names of the Java client, whose tools show it.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Mapping
from types import CoroutineType
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
    ProcessQueueInfo,
)
from roquet.protocol.bodies.offsets import ConsumerStatus, ResetOffsetList, ResetOffsets
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.headers.groups import (
    ConsumeDirectlyHeader,
    ConsumersChangedHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)

# Tools find the version by its name.
_CLIENT_VERSION: Final = "V4_9_8"


class Asked(Protocol):
    """The member that is asked; queues have the topics of brokers, with their namespace."""

    membership: Membership

    def move(self, queue: QueueRef, offset: int) -> None:
        """Continues at this offset if it reads the queue, whatever is being delivered now."""

    def positions(self) -> Mapping[QueueRef, int]:
        """Its offset in each queue, where that is known."""

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo: ...

    async def consume_directly(self, message: ReceivedMessage) -> DirectConsumeResult:
        """Calls the listener with one message; offsets stay. Raises BadArgument without one."""


def members_changed(member: Asked, request: Request[ConsumersChangedHeader]) -> Reply:
    if request.header.consumer_group == member.membership.group:
        member.membership.rebalance.wake()
    return Reply()


def reset_offsets(member: Asked, request: Request[ResetOffsetHeader]) -> Reply:
    """An operator moved the group. Unlike Java's, pull consumers of Roquet follow."""
    _check_group(member, request.header.group)
    for queue, offset in _new_offsets(request.body).items():
        member.move(queue, offset)
    return Reply()


def answer_status(member: Asked, request: Request[ConsumerStatusHeader]) -> Reply:
    _check_group(member, request.header.group)
    table = {
        wire_queue(queue): offset
        for queue, offset in member.positions().items()
        if queue.topic == request.header.topic
    }
    return Reply(body=write_body(ConsumerStatus(message_queue_table=QueueTable(table))))


def answer_running_info(member: Asked, request: Request[RunningInfoHeader]) -> Reply:
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
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f"no consumer of group {group[:200]!r} in this client"
        )


def _new_offsets(body: bytes) -> dict[QueueRef, int]:
    """In one of two forms: brokers do not always know the language of a client."""
    try:
        table = read_body(ResetOffsets, body).offset_table
    except BadBody:
        listed = read_body(ResetOffsetList, body).offset_table
        return {queue_ref(each): each.offset for each in listed}
    return {queue_ref(queue): offset for queue, offset in table.items()}


ROUTES: Final[tuple[RequestRoute[Asked], ...]] = (
    on(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ConsumersChangedHeader, members_changed),
    on(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ResetOffsetHeader, reset_offsets),
    on(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatusHeader, answer_status),
    on(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, answer_running_info),
    on(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader, consume_directly),
)


def running_info(
    membership: Membership,
    own_properties: Mapping[str, str],
    queues: Mapping[QueueRef, ProcessQueueInfo],
    *,
    has_stacks: bool,
) -> ConsumerRunningInfo:
    config = membership.config
    properties = {
        "PROP_CONSUMER_START_TIMESTAMP": str(membership.begin_ms),
        "PROP_NAMESERVER_ADDR": "".join(
            f"{address};" for address in membership.instance.names.addresses
        ),
        "PROP_CONSUME_TYPE": membership.consume_type,
        "PROP_CLIENT_VERSION": _CLIENT_VERSION,
        "consumerGroup": membership.group,
        "messageModel": "BROADCASTING" if config.broadcasting else "CLUSTERING",
        "allocateMessageQueueStrategy": config.allocation.name,
        **own_properties,
    }
    return ConsumerRunningInfo(
        properties=properties,
        mq_table=QueueTable({wire_queue(queue): info for queue, info in queues.items()}),
        subscription_set=membership.subscriptions.bodies(),
        jstack=_stacks() if has_stacks else None,
    )


def _stacks() -> str:
    """Where each thread and each task is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    threads = [
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001  There is no other way.
    ]
    tasks = [
        f"task {task.get_name()}\n{''.join(traceback.format_list(_awaited_in(task.get_coro())))}"
        for task in asyncio.all_tasks()
    ]
    return "\n".join(threads + tasks)


def _awaited_in(coroutine: object) -> list[traceback.FrameSummary]:
    """Where a task waits; `Task.get_stack` has its outermost frame only."""
    frames = []
    while isinstance(coroutine, CoroutineType) and coroutine.cr_frame is not None:
        frame = coroutine.cr_frame
        frames.append((frame, frame.f_lineno))
        coroutine = coroutine.cr_await
    return list(traceback.StackSummary.extract(frames))
