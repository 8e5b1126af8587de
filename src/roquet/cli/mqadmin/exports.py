"""Exports of mqadmin: JSON files with topics and groups, settings and figures of a cluster.

The files have the names and the members of Apache's, for programs that read these.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from roquet.cli.admin_commands.commands import Session
from roquet.cli.admin_commands.failures import DONE, MISUSED, Failed
from roquet.cli.mqadmin.brokers import day_counts
from roquet.cli.mqadmin.declaring import (
    BROKER,
    CLUSTER,
    Command,
    Flag,
    brokers_where,
    masters_where,
    own,
)
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.errors import TopicNotFound
from roquet.client.names import unwrapped
from roquet.clock import SystemClock
from roquet.protocol.names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC
from roquet.reporting import Report

_DIRECTORY: Final = Path("/tmp/rocketmq/export")  # noqa: S108  Apache's default.
_TO: Final = Flag("f", "filePath", kind=Path, default=_DIRECTORY)
_THE_CLUSTER: Final = Flag("c", "clusterName", is_required=True)
# The settings of a broker that are exported.
_SETTINGS: Final = (
    *("brokerClusterName", "brokerName", "brokerId", "brokerRole", "flushDiskType"),
    *("fileReservedTime", "maxMessageSize", "messageDelayLevel", "slaveReadEnable"),
    *("autoCreateTopicEnable", "autoCreateSubscriptionGroup", "traceOn", "traceTopicEnable"),
    *("msgTraceTopicName", "filterServerNums", "useTLS"),
)

Json = dict[str, Any]


async def _export_metadata(session: Session) -> int:
    """With -t topics only, with -g groups only."""
    given, admin = session.given, session.admin
    users_topics, users_groups = set(await admin.topics()), set(await admin.groups())

    def is_wanted(topic: str) -> bool:
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return bool(given.specialTopic)
        return unwrapped(session.access.namespace, topic) in users_topics

    topics: Json = {}
    groups: Json = {}
    for broker in await brokers_where(session, given.clusterName, given.brokerAddr):
        tables = await admin.broker_tables(broker.address)
        merge(topics, tables.topics, is_wanted, ("readQueueNums", "writeQueueNums"))
        merge(
            groups,
            tables.groups,
            lambda group: unwrapped(session.access.namespace, group) in users_groups,
            ("retryQueueNums",),
        )
    exported: Json = {"exportTime": SystemClock().now_ms()}
    if given.topicOnly or not given.groupOnly:
        exported["topicConfigTable"] = topics
    if given.groupOnly or not given.topicOnly:
        exported["subscriptionGroupTable"] = groups
    return _written(session, _metadata_name(session), exported)


def _metadata_name(session: Session) -> str:
    match session.given.topicOnly, session.given.groupOnly:
        case True, False:
            return "topic.json"
        case False, True:
            return "subscriptionGroup.json"
        case _:
            return "metadata.json"


def merge(
    whole: Json,
    part: Mapping[str, Mapping[str, Any]],
    is_wanted: Callable[[str], bool],
    summed: tuple[str, ...],
) -> None:
    """What a cluster has is the sum of the queues of its brokers."""
    for name, settings in sorted(part.items()):
        if is_wanted(name):
            before = whole.get(name, {})
            sums = {key: settings[key] + before.get(key, 0) for key in summed}
            whole[name] = {**settings, **sums}


async def _export_configs(session: Session) -> int:
    cluster = session.given.clusterName
    masters = await masters_where(session, cluster)
    known = await session.admin.brokers(with_state=False)
    slaves = [each for each in known if each.cluster == cluster and not each.is_master]
    configs = {}
    for broker in masters:
        settings = await session.admin.broker_config(broker.address)
        configs[broker.broker_name] = {key: settings[key] for key in _SETTINGS if key in settings}
    scale = {
        "namesrvSize": len(await session.admin.name_servers()),
        "masterBrokerSize": len(masters),
        "slaveBrokerSize": len(slaves),
    }
    exported = {"clusterScale": scale, "brokerConfigs": configs}
    return _written(session, "configs.json", exported)


async def _export_metrics(session: Session) -> int:
    reports = {
        broker.broker_name: await _figures(session, broker)
        for broker in await masters_where(session, session.given.clusterName)
    }
    quotas = [each["runtimeQuota"] for each in reports.values()]
    totals = {
        "totalOneDayNum": summed_members([each["oneDayNum"] for each in quotas]),
        "totalTps": {
            f"total{name[:1].upper()}{name[1:]}": value
            for name, value in summed_members([each["tps"] for each in quotas]).items()
        },
    }
    exported = {"evaluateReport": reports, "totalData": totals}
    return _written(session, "metrics.json", exported)


def summed_members(tables: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: sum(table[name] for table in tables) for name in names}


async def _figures(session: Session, broker: BrokerInfo) -> Json:
    admin = session.admin
    runtime = await admin.broker_runtime(broker.address)
    in_count, out_count, _, _ = day_counts(runtime)
    delayed_rate, delayed_count = await _traffic(session, SCHEDULE_TOPIC)
    half_rate, half_count = await _traffic(session, HALF_TOPIC)
    return {
        "runtimeVersion": {
            "rocketmqVersion": runtime.get("brokerVersionDesc"),
            "clientInfo": await _clients(session),
        },
        "runtimeQuota": {
            "diskRatio": {
                key: runtime.get(key) for key in ("commitLogDiskRatio", "consumeQueueDiskRatio")
            },
            "tps": {
                "normalInTps": _newest(runtime.get("putTps")),
                # Misspelt by 4.9.
                "normalOutTps": _newest(
                    runtime.get("getTransferedTps") or runtime.get("getTransferredTps")
                ),
                "scheduleInTps": delayed_rate,
                "transInTps": half_rate,
            },
            "oneDayNum": {
                "normalOneDayInNum": in_count,
                "normalOneDayOutNum": out_count,
                "scheduleOneDayInNum": delayed_count,
                "transOneDayInNum": half_count,
            },
            "topicSize": len(await admin.topics(cluster=broker.cluster)),
            "groupSize": len(await admin.groups()),
            "messageAverageSize": runtime.get("putMessageAverageSize"),
        },
    }


async def _traffic(session: Session, topic: str) -> tuple[float, int]:
    """A topic that no message has needed yet is not there."""
    try:
        found = await session.admin.traffic(topic)
    except TopicNotFound:
        return 0.0, 0
    return found.rate, found.day_count


async def _clients(session: Session) -> list[str]:
    """Language and version of all members of groups."""
    members = [
        each
        for group in await session.admin.groups()
        for each in (await session.admin.members(group)).connections
    ]
    return sorted({f"{each.language}%{each.version}" for each in members})


def _newest(text: str | None) -> float:
    """Of "10s 60s 600s" the first; a young broker of 5.x has a blank there."""
    first, *_ = (text or "").split() or ["0"]
    return float(first)


def _written(session: Session, name: str, content: object) -> int:
    """Raises Failed."""
    path: Path = session.given.filePath / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=2))
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}; choose a directory with -f", MISUSED) from None
    session.finish(Report({"exported": str(path)}))
    return DONE


COMMANDS: Final = {
    "exportMetadata": Command(
        "Export topics and groups to metadata.json.",
        [
            BROKER,
            CLUSTER,
            _TO,
            Flag("t", "topic", is_switch=True, to="topicOnly"),
            Flag("g", "subscriptionGroup", is_switch=True, to="groupOnly"),
            Flag("s", "specialTopic", is_switch=True),
        ],
        own(_export_metadata),
    ),
    "exportConfigs": Command(
        "Export the settings of brokers to configs.json.",
        [_THE_CLUSTER, _TO],
        own(_export_configs),
    ),
    "exportMetrics": Command(
        "Export figures of brokers to metrics.json.", [_THE_CLUSTER, _TO], own(_export_metrics)
    ),
}
