"""What a consumer says about itself when an operator asks, through a broker it is connected to."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from roquet.client.admin.servers import AdminServers
from roquet.client.moments import moment_of
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies.clients import (
    ConsumerRunningInfo,
    ConsumeStatus,
    ProcessQueueInfo,
)


@dataclass(frozen=True, slots=True)
class MemberQueue:
    """One queue that it reads. Java's consumers tell the beginning where nothing happened yet."""

    committed_offset: int
    cached_count: int
    is_locked: bool
    last_pull: datetime | None
    last_consumed: datetime | None


@dataclass(frozen=True, slots=True)
class MemberRates:
    """Of one topic: messages a second, and how long an average pull and call take."""

    pulled: float
    done: float
    failed: float
    failed_count: int
    pull_duration: timedelta
    call_duration: timedelta


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """`properties` are under Java's names."""

    properties: Mapping[str, str]
    # What it wants of each topic.
    subscriptions: Mapping[str, str]
    queues: Mapping[QueueRef, MemberQueue]
    rates: Mapping[str, MemberRates]


def member_info(servers: AdminServers, said: ConsumerRunningInfo) -> MemberInfo:
    name = servers.user_name
    return MemberInfo(
        dict(said.properties),
        {name(each.topic): each.sub_string or "" for each in said.subscription_set},
        {
            QueueRef(name(queue.topic), queue.broker_name, queue.queue_id): _queue(each)
            for queue, each in said.mq_table.items()
        },
        {name(topic): _rates(each) for topic, each in said.status_table.items()},
    )


def _queue(said: ProcessQueueInfo) -> MemberQueue:
    return MemberQueue(
        said.commit_offset,
        said.cached_msg_count,
        said.locked,
        moment_of(said.last_pull_timestamp),
        moment_of(said.last_consume_timestamp),
    )


def _rates(said: ConsumeStatus) -> MemberRates:
    return MemberRates(
        said.pull_tps,
        said.consume_ok_tps,
        said.consume_failed_tps,
        said.consume_failed_msgs,
        timedelta(milliseconds=said.pull_rt),
        timedelta(milliseconds=said.consume_rt),
    )
