"""What a push consumer tells operators besides what all members of a group do."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from roquet.client.group.membership import Membership
from roquet.client.moments import moment_before, timestamp_ms
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.orderly import QueueLocks
from roquet.client.push.statistics import ConsumerCounters, PushProgress
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies.clients import ConsumeStatus, ProcessQueueInfo

_MEGABYTE: Final = 1024 * 1024


def own_properties(config: PushConsumerConfig, *, is_paused: bool) -> dict[str, str]:
    return {
        "PROP_CONSUMEORDERLY": str(config.orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(config.concurrency),
        "pullBatchSize": str(config.pull_count_max),
        "consumeMessageBatchMaxSize": str(config.delivery_count_max),
        "pause": str(is_paused).lower(),
    }


def queue_infos(
    membership: Membership, locks: QueueLocks | None, progress: Mapping[QueueRef, PushProgress]
) -> dict[QueueRef, ProcessQueueInfo]:
    def or_begin(moment: datetime | None) -> int:
        return membership.begin_ms if moment is None else timestamp_ms(moment)

    def locked(queue: QueueRef) -> datetime | None:
        return None if locks is None else moment_before(membership.clock, locks.locked_s(queue))

    def info(queue: QueueRef, progress: PushProgress) -> ProcessQueueInfo:
        first = progress.offset if progress.unfinished_count else 0
        return ProcessQueueInfo(
            cached_msg_count=progress.unfinished_count,
            cached_msg_min_offset=first,
            cached_msg_max_offset=first + progress.unfinished_span,
            cached_msg_size_in_mib=progress.unfinished_size // _MEGABYTE,
            commit_offset=progress.offset,
            locked=progress.is_locked,
            last_lock_timestamp=or_begin(locked(queue)),
            last_pull_timestamp=or_begin(progress.last_pull),
            last_consume_timestamp=or_begin(progress.last_end),
        )

    return {queue: info(queue, each) for queue, each in progress.items()}


def topic_statuses(counters: ConsumerCounters, now_s: float) -> dict[str, ConsumeStatus]:
    return {
        topic: ConsumeStatus(
            pull_rt=each.pull_duration_s * 1000,
            pull_tps=each.pulled,
            consume_rt=each.call_duration_s * 1000,
            consume_ok_tps=each.done,
            consume_failed_tps=each.failed,
            consume_failed_msgs=counters.topics[topic].failed_count,
        )
        for topic, each in counters.rates(now_s).items()
    }
