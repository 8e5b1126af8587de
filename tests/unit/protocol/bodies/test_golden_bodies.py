"""Every body that real Apache peers sent is read, and nothing of it is lost when written again."""

import tarfile
from collections.abc import Iterator
from types import UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec
import pytest

from roquet.protocol.bodies import (
    accounts,
    assignment,
    batch_ack,
    cold_data,
    connection,
    consume_queue,
    consume_stats,
    data_version,
    group_config,
    heartbeat,
    kv_table,
    lock,
    names,
    offset_table,
    registration,
    replicas,
    route,
    running_info,
    subscription_data,
    timer,
    topic_config,
    topic_stats,
)
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.queue_table import QueueTable
from roquet.protocol.lenient_json import strict_json, with_bare_integer_keys
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.golden_records import STORES_DIR

REQUEST_TYPES: Final[dict[int, Any]] = {
    18: topic_config.TopicConfigList,
    34: heartbeat.Heartbeat,
    41: lock.QueueLockRequest,
    42: lock.QueueLockRequest,
    46: subscription_data.SubscriptionCheck,
    103: registration.BrokerRegistration,
    200: group_config.GroupConfig,
    220: offset_table.ResetOffsets,
    225: group_config.GroupConfigList,
    322: data_version.DataVersion,
    400: assignment.AssignmentQuery,
    401: assignment.RequestModeSetting,
    906: dict,  # Made by hand: no real peer sends a body with it.
    3001: accounts.User,
    3002: accounts.User,
    3006: accounts.Acl,
    3007: accounts.Acl,
    200151: batch_ack.BatchAckRequest,
}
REPLY_TYPES: Final[dict[int, Any]] = {
    21: topic_config.TopicConfigTable,
    28: kv_table.KvTable,
    38: names.ConsumerIds,
    41: lock.LockedQueues,
    43: offset_table.ConsumerOffsetTable,
    45: offset_table.DelayOffsetTable,
    54: accounts.PlainAccounts,
    61: timer.TimerMetrics,
    105: route.TopicRoute,
    106: route.ClusterInfo,
    201: group_config.GroupConfigTable,
    202: topic_stats.TopicStats,
    203: connection.ConsumerConnections,
    204: connection.ProducerConnections,
    206: names.TopicList,
    208: consume_stats.ConsumeStats,
    219: kv_table.KvTable,
    221: offset_table.ConsumerStatus,
    222: offset_table.ResetOffsets,
    223: offset_table.ConsumerStatus,
    224: names.TopicList,
    300: names.GroupList,
    303: consume_stats.ConsumeTimeSpans,
    304: names.TopicList,
    305: names.TopicList,
    307: running_info.ConsumerRunningInfo,
    308: offset_table.CorrectionOffsets,
    309: running_info.DirectConsumeResult,
    311: names.TopicList,
    312: names.TopicList,
    313: names.TopicList,
    315: consume_stats.BrokerStats,
    317: consume_stats.ConsumeStatsList,
    321: consume_queue.ConsumeQueueView,
    322: data_version.DataVersion,
    328: connection.ProducerTable,
    343: names.TopicList,
    345: subscription_data.GroupSubscription,
    351: topic_config.TopicConfig,
    352: group_config.GroupConfig,
    353: group_config.GroupForbidden,
    354: consume_queue.QueueCopyCheck,
    400: assignment.QueueAssignments,
    402: assignment.RequestModeTable,
    901: route.BrokerMemberGroupReply,
    907: replicas.HaStatus,
    2003: cold_data.ColdDataFlow,
    3004: accounts.User,
    3005: list[accounts.User],
    3009: accounts.Acl,
    3010: list[accounts.Acl],
}
STATE_FILE_TYPES: Final[dict[str, Any]] = {
    "consumerOffset.json": offset_table.ConsumerOffsetTable,
    "delayOffset.json": offset_table.DelayOffsetTable,
    "subscriptionGroup.json": group_config.GroupConfigTable,
    "topics.json": topic_config.TopicConfigTable,
}
# Messages, batches of them, lines of settings, and the timer's checkpoint.
NOT_JSON: Final = {
    10, 11, 12, 25, 26, 33, 36, 39, 60, 310, 318, 319, 320, 324, 325, 326, 361, 200050, 200052,
}  # fmt: skip
# 309 hands a message to the client and gets JSON back.
NOT_JSON_REQUESTS: Final = NOT_JSON | {309}
# The same times once more as text, in the time zone of the sender.
REDUNDANT: Final = {"consumeTimeStampStr", "maxTimeStampStr", "minTimeStampStr"}


class GoldenBody(NamedTuple):
    frame: GoldenFrame
    body_type: Any
    data: bytes


def golden_bodies() -> Iterator[GoldenBody]:
    seen: set[tuple[int, str, bytes]] = set()
    for frame in golden_frames():
        data = frame.command.body
        is_reply = frame.kind == "response"
        if not data or (is_reply and frame.command.code != 0):
            continue
        if frame.request_code in (NOT_JSON if is_reply else NOT_JSON_REQUESTS):
            continue
        if data.startswith(b"x"):  # a compressed registration
            continue
        if (key := (frame.request_code, frame.kind, data)) not in seen:
            seen.add(key)
            types = REPLY_TYPES if is_reply else REQUEST_TYPES
            yield GoldenBody(frame, types[frame.request_code], data)


def is_from_java_49(frame: GoldenFrame) -> bool:
    """Whether both ends are Java 4.9.7; the requests of the `raw` scenarios are written by hand."""
    is_raw_request = frame.scenario.startswith("raw") and frame.kind != "response"
    return frame.scenario.endswith(("s49", "s49_c49")) and not is_raw_request


GOLDEN_BODIES: Final = tuple(golden_bodies())
BY_PLACE: Final = [pytest.param(golden, id=golden.frame.place) for golden in GOLDEN_BODIES]
OF_JAVA_49: Final = [
    pytest.param(golden, id=golden.frame.place)
    for golden in GOLDEN_BODIES
    if is_from_java_49(golden.frame) and golden.body_type is not consume_stats.ConsumeTimeSpans
]


def test_all_golden_bodies_are_looked_at() -> None:
    assert len(GOLDEN_BODIES) == 386
    assert len(OF_JAVA_49) == 109
    found = {
        (golden.frame.kind == "response", golden.frame.request_code) for golden in GOLDEN_BODIES
    }
    declared = {(False, code) for code in REQUEST_TYPES} | {(True, code) for code in REPLY_TYPES}
    assert found == declared


@pytest.mark.parametrize("golden", BY_PLACE)
def test_a_golden_body_survives_reading_and_writing(golden: GoldenBody) -> None:
    body = read_body(golden.body_type, golden.data)
    assert read_body(golden.body_type, write_body(body)) == body


@pytest.mark.parametrize("golden", BY_PLACE)
def test_every_member_of_a_golden_body_is_declared(golden: GoldenBody) -> None:
    values = msgspec.json.decode(strict_json(golden.data))
    assert set(undeclared(values, golden.body_type)) <= REDUNDANT


@pytest.mark.parametrize("golden", OF_JAVA_49)
def test_we_write_as_java_49_does_but_quote_integer_keys(golden: GoldenBody) -> None:
    written = write_body(read_body(golden.body_type, golden.data))
    assert golden.data in (written, with_bare_integer_keys(written))


@pytest.mark.parametrize("store", ["v49_clean", "v49_crashed", "v55_clean", "v55_crashed"])
def test_state_files_of_a_broker_hold_the_same_bodies(store: str) -> None:
    with tarfile.open(STORES_DIR / f"{store}.tar.gz") as archive:
        for name, body_type in STATE_FILE_TYPES.items():
            file = archive.extractfile(f"{store}/config/{name}")
            assert file is not None
            text = file.read()
            body = read_body(body_type, text)
            assert read_body(body_type, write_body(body)) == body
            values = msgspec.json.decode(strict_json(text))
            assert set(undeclared(values, body_type)) == set()


def undeclared(value: Any, body_type: Any) -> Iterator[str]:
    """Names of members in `value` that `body_type` knows nothing of."""
    if isinstance(body_type, type) and issubclass(body_type, msgspec.Struct):
        types = {field.encode_name: field.type for field in msgspec.structs.fields(body_type)}
        for name, member in value.items():
            if name in types:
                yield from undeclared(member, types[name])
            else:
                yield name
        return
    arguments = get_args(body_type)
    match get_origin(body_type):
        case origin if origin in (dict, QueueTable):
            for member in value.values():
                yield from undeclared(member, arguments[1 if origin is dict else 0])
        case origin if origin is list:
            for item in value:
                yield from undeclared(item, arguments[0])
        case origin if origin in (UnionType, Union):  # something or None
            yield from undeclared(value, arguments[0])
