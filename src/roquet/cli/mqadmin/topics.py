"""Commands of mqadmin about topics: settings, routes, traffic, shares of consumers."""

import asyncio
from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from roquet.cli.admin_commands.commands import Act, Session
from roquet.cli.admin_commands.failures import DONE, MISUSED, Failed
from roquet.cli.mqadmin.declaring import (
    BROKER,
    CLUSTER,
    TOPIC,
    Command,
    Flag,
    Words,
    masters_where,
    option,
    own,
    truth,
    where,
)
from roquet.client.errors import TopicNotFound
from roquet.client.group.allocation import average
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from roquet.reporting import Fact, Report, ReportTable

_PERMISSIONS: Final = {"2": "w", "4": "r", "6": "rw"}
# Topics that are queried at the same time.
_AT_ONCE: Final = 8
# Lag by group and topic.
_Lags = Mapping[tuple[str, str], int]


def _topic_list(given: Namespace) -> Words | Act:
    return _list_by_cluster if given.clusterModel else ["topic", "list", "--all"]


def _update_topic(given: Namespace) -> Words:
    permission = None if given.perm is None else _PERMISSIONS.get(given.perm, given.perm)
    attributes = (given.attributes or "").split(",")
    return [
        *("topic", "create", given.topic, "--or-change"),
        *option("--read-queues", given.readQueueNums),
        *option("--write-queues", given.writeQueueNums),
        *option("--permission", permission),
        *(["--ordered"] if given.order else []),
        *(word for each in attributes if each for word in ("--attribute", each.lstrip("+"))),
        *where(given),
    ]


async def _list_by_cluster(session: Session) -> int:
    admin = session.partial
    rows: list[tuple[Fact, ...]] = []
    for cluster in sorted({each.cluster for each in await masters_where(session, None)}):
        topics = await admin.topics(cluster=cluster, with_internal=True)
        topics = [each for each in topics if not each.startswith((RETRY_PREFIX, DLQ_PREFIX))]
        for topic, groups in zip(topics, await _groups_of(session, topics), strict=True):
            rows += [(cluster, topic, group) for group in groups] or [(cluster, topic, None)]
    session.finish(Report({}, [ReportTable("topics", ("cluster", "topic", "group"), rows)]))
    return DONE


async def _groups_of(session: Session, topics: list[str]) -> list[list[str]]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def groups(topic: str) -> list[str]:
        async with gate:
            try:
                return await session.partial.topic_groups(topic)
            except TopicNotFound:
                return []  # Deleted meanwhile.

    return await asyncio.gather(*map(groups, topics))


async def _statistics(session: Session) -> int:
    given, admin = session.given, session.partial
    topics = await admin.topics(with_internal=True) if given.topic is None else [given.topic]
    topics = [each for each in topics if not each.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    lags = await _lags(session)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def rows_of(topic: str) -> list[tuple[Fact, ...]]:
        async with gate:
            return await _topic_rows(session, topic, lags)

    parts = await asyncio.gather(*map(rows_of, topics))
    columns = ("topic", "group", "lag", "in_rate", "out_rate", "in_day", "out_day")
    rows = [row for part in parts for row in part]
    session.finish(Report({}, [ReportTable("topics", columns, rows)]))
    return DONE


async def _lags(session: Session) -> _Lags:
    lags: dict[tuple[str, str], int] = {}
    for progress in await session.partial.all_progress():
        for queue in progress.queues:
            key = progress.group, queue.queue.topic
            lags[key] = lags.get(key, 0) + (queue.lag or 0)
    return lags


async def _topic_rows(session: Session, topic: str, lags: _Lags) -> list[tuple[Fact, ...]]:
    admin, only_active = session.partial, session.given.activeTopic
    try:
        sent = await admin.traffic(topic)
        groups = await admin.topic_groups(topic)
        taken = [await admin.traffic(topic, group=group) for group in groups]
    except TopicNotFound:
        if session.given.topic is not None:
            raise
        return []  # Deleted meanwhile.
    if only_active and not sent.day_count and not any(each.day_count for each in taken):
        return []
    if not groups:
        return [(topic, None, 0, sent.rate, None, sent.day_count, None)]
    return [
        (
            *(topic, group, lags.get((group, topic), 0)),
            *(sent.rate, each.rate, sent.day_count, each.day_count),
        )
        for group, each in zip(groups, taken, strict=True)
    ]


async def _allocate(session: Session) -> int:
    """As consumers with the default strategy share the queues."""
    topic = session.given.topic
    addresses = [each.strip() for each in session.given.ipList.split(",") if each.strip()]
    if not addresses:
        raise Failed("-i has no address: expected 10.0.0.1,10.0.0.2", MISUSED)
    queues = sorted(
        QueueRef(topic, each.broker_name, queue_id)
        for each in await session.admin.topic_route(topic)
        for queue_id in range(each.read_queue_count)
    )
    rows = [
        (address, queue.broker_name, queue.queue_id)
        for address in addresses
        for queue in average(address, queues, addresses)
    ]
    session.finish(Report({}, [ReportTable("queues", ("address", "broker", "queue"), rows)]))
    return DONE


COMMANDS: Final = {
    "topicList": Command(
        "List topics; with -c also their clusters and groups.",
        [Flag("c", "clusterModel", is_switch=True)],
        _topic_list,
    ),
    "topicStatus": Command("Queues of a topic.", [TOPIC], lambda it: ["topic", "show", it.topic]),
    "topicRoute": Command(
        "Route of a topic.",
        # The output is a list anyway.
        [TOPIC, Flag("l", "list", is_switch=True)],
        lambda it: ["topic", "route", it.topic],
    ),
    "topicClusterList": Command(
        "Clusters of a topic.", [TOPIC], lambda it: ["topic", "route", it.topic]
    ),
    "updateTopic": Command(
        "Create or change a topic.",
        [
            TOPIC,
            BROKER,
            CLUSTER,
            Flag("r", "readQueueNums"),
            Flag("w", "writeQueueNums"),
            Flag("p", "perm"),
            Flag("o", "order", kind=truth),
            Flag("a", "attributes"),
        ],
        _update_topic,
    ),
    "updateTopicPerm": Command(
        "Change the permission of a topic: 2 write, 4 read, 6 both.",
        [TOPIC, BROKER, CLUSTER, Flag("p", "perm", is_required=True)],
        lambda it: [
            *("topic", "change", it.topic, "--permission", _PERMISSIONS.get(it.perm, it.perm)),
            *where(it),
        ],
    ),
    "deleteTopic": Command(
        "Delete a topic.",
        [TOPIC, CLUSTER],
        lambda it: [
            *("topic", "delete", it.topic, "--yes"),
            *option("--cluster", it.clusterName),
        ],
    ),
    "statsAll": Command(
        "Lag and traffic of topics by group.",
        [Flag("a", "activeTopic", is_switch=True), Flag("t", "topic")],
        own(_statistics),
    ),
    "allocateMQ": Command(
        "How consumers at these addresses would share the queues of a topic.",
        [TOPIC, Flag("i", "ipList", is_required=True)],
        own(_allocate),
    ),
}
