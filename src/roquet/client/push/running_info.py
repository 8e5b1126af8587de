"""What a push consumer tells operators about itself, in the words of the Java client."""

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Final

from roquet.client.push.statistics import QueueProgress
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies.heartbeat import ConsumeType
from roquet.protocol.bodies.offset_table import ConsumerStatus
from roquet.protocol.bodies.queue_table import MessageQueue, QueueTable
from roquet.protocol.bodies.running_info import (
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)

if TYPE_CHECKING:
    from roquet.client.push.member import GroupMember

_MEGABYTE: Final = 1024 * 1024
# Tools look the version up by its name.
_CLIENT_VERSION: Final = "V4_9_8"


def status_of(member: "GroupMember", topic: str) -> ConsumerStatus:
    """How far it is in each queue of a topic."""
    table = {
        _wire(queue): progress.offset
        for queue, reader in member.assignment.readers.items()
        if queue.topic == topic and (progress := reader.progress()) is not None
    }
    return ConsumerStatus(message_queue_table=QueueTable(table))


def running_info(member: "GroupMember", *, has_stacks: bool) -> ConsumerRunningInfo:
    config = member.config
    properties = {
        "PROP_CONSUMEORDERLY": str(config.orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(config.concurrency),
        "PROP_CONSUMER_START_TIMESTAMP": str(member.begin_ms),
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in config.name_servers),
        "PROP_CONSUME_TYPE": ConsumeType.PUSH,
        "PROP_CLIENT_VERSION": _CLIENT_VERSION,
        "consumerGroup": member.group,
        "messageModel": "BROADCASTING" if config.broadcasting else "CLUSTERING",
        "allocateMessageQueueStrategy": config.allocation.name,
        "pullBatchSize": str(config.pull_count_max),
        "consumeMessageBatchMaxSize": str(config.delivery_count_max),
        "pause": str(member.is_paused).lower(),
    }
    queues = {
        _wire(queue): _queue_info(member, queue, progress)
        for queue, reader in member.assignment.readers.items()
        if (progress := reader.progress()) is not None
    }
    return ConsumerRunningInfo(
        properties=properties,
        mq_table=QueueTable(queues),
        status_table=_statuses(member),
        subscription_set=member.subscriptions.bodies(),
        jstack=_stacks() if has_stacks else None,
    )


def _queue_info(
    member: "GroupMember", queue: QueueRef, progress: QueueProgress
) -> ProcessQueueInfo:
    def moment(seconds: float | None) -> int:
        if seconds is None:
            return member.begin_ms
        return member.clock.now_ms() - round((member.clock.monotonic_s() - seconds) * 1000)

    locked_s = None if member.locks is None else member.locks.locked_s(queue)
    first = progress.offset if progress.unfinished_count else 0
    return ProcessQueueInfo(
        cached_msg_count=progress.unfinished_count,
        cached_msg_min_offset=first,
        cached_msg_max_offset=first + progress.unfinished_span,
        cached_msg_size_in_mib=progress.unfinished_size // _MEGABYTE,
        commit_offset=progress.offset,
        locked=progress.is_locked,
        last_lock_timestamp=moment(locked_s),
        last_pull_timestamp=moment(progress.pulled_s),
        last_consume_timestamp=moment(progress.ended_s),
    )


def _statuses(member: "GroupMember") -> dict[str, ConsumeStatus]:
    counts = member.counting.topics
    rates = member.counting.rates(member.clock.monotonic_s())
    return {
        topic: ConsumeStatus(
            pull_rt=each.pull_duration_s * 1000,
            pull_tps=each.pulled,
            consume_rt=each.call_duration_s * 1000,
            consume_ok_tps=each.done,
            consume_failed_tps=each.failed,
            consume_failed_msgs=counts[topic].failed_count,
        )
        for topic, each in rates.items()
    }


def _stacks() -> str:
    """Where each thread is."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001  There is no other way.
    )


def _wire(queue: QueueRef) -> MessageQueue:
    return MessageQueue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)
