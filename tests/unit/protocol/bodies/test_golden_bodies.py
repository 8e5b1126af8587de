"""Every body that real Apache peers sent is read, and nothing of it is lost when written again."""

import tarfile
from collections.abc import Iterator
from types import UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec
import pytest

from roquet.protocol.bodies import (
    body,
    brokers,
    clients,
    groups,
    name_server,
    offsets,
    pop,
    topics,
)
from roquet.protocol.bodies.body import QueueTable, read_body, write_body
from roquet.protocol.lenient_json import strict_json, with_bare_integer_keys
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.golden_records import STORES_DIR

REQUEST_TYPES: Final[dict[int, Any]] = {
    18: topics.TopicConfigList,
    34: clients.Heartbeat,
    41: groups.QueueLockRequest,
    42: groups.QueueLockRequest,
    46: clients.SubscriptionCheck,
    103: name_server.BrokerRegistration,
    200: groups.GroupConfig,
    220: offsets.ResetOffsets,
    225: groups.GroupConfigList,
    322: body.DataVersion,
    400: pop.AssignmentQuery,
    401: pop.RequestModeSetting,
    906: dict,  # Made by hand: no real peer sends a body with it.
    3001: brokers.User,
    3002: brokers.User,
    3006: brokers.Acl,
    3007: brokers.Acl,
    200151: pop.BatchAckRequest,
}
REPLY_TYPES: Final[dict[int, Any]] = {
    21: topics.TopicConfigTable,
    28: name_server.KvTable,
    38: groups.ConsumerIds,
    41: groups.LockedQueues,
    43: offsets.ConsumerOffsetTable,
    45: offsets.DelayOffsetTable,
    54: brokers.AccountConfigs,
    61: brokers.TimerMetrics,
    105: name_server.TopicRoute,
    106: name_server.ClusterInfo,
    201: groups.GroupConfigTable,
    202: topics.TopicStats,
    203: clients.ConsumerConnections,
    204: clients.ProducerConnections,
    206: topics.TopicList,
    208: offsets.ConsumeStats,
    219: name_server.KvTable,
    221: offsets.ConsumerStatus,
    222: offsets.ResetOffsets,
    223: offsets.ConsumerStatus,
    224: topics.TopicList,
    300: groups.GroupList,
    303: offsets.ConsumeTimeSpans,
    304: topics.TopicList,
    305: topics.TopicList,
    307: clients.ConsumerRunningInfo,
    308: offsets.CorrectionOffsets,
    309: clients.DirectConsumeResult,
    311: topics.TopicList,
    312: topics.TopicList,
    313: topics.TopicList,
    315: brokers.BrokerStats,
    317: offsets.ConsumeStatsList,
    321: topics.ConsumeQueueView,
    322: body.DataVersion,
    328: clients.ProducerTable,
    343: topics.TopicList,
    345: clients.GroupSubscription,
    351: topics.TopicConfig,
    352: groups.GroupConfig,
    353: groups.GroupForbidden,
    354: topics.QueueCopyCheck,
    400: pop.QueueAssignments,
    402: pop.RequestModeTable,
    901: name_server.BrokerMemberGroupReply,
    907: brokers.HaStatus,
    2003: brokers.ColdDataFlow,
    3004: brokers.User,
    3005: list[brokers.User],
    3009: brokers.Acl,
    3010: list[brokers.Acl],
}
STATE_FILE_TYPES: Final[dict[str, Any]] = {
    "consumerOffset.json": offsets.ConsumerOffsetTable,
    "delayOffset.json": offsets.DelayOffsetTable,
    "subscriptionGroup.json": groups.GroupConfigTable,
    "topics.json": topics.TopicConfigTable,
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
    if is_from_java_49(golden.frame) and golden.body_type is not offsets.ConsumeTimeSpans
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
