"""Frames that clients send, plain and odd, for whoever compares two ways of answering them."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from roquet.protocol.headers.messages import SendMessageHeader, SendMessageHeaderV2
from roquet.protocol.messages.batch_writing import encode_batch

TOPICS = ("TopicA", "TopicB")
QUEUE_IDS = ("0", "1", "3")
GROUPS = ("readers", "others")

_odd_numbers = st.sampled_from(
    [
        "00",
        "-1",
        "7",
        "2147483647",
        "2147483648",
        "-2147483648",
        "x",
        "",
        " 1",
        "+1",
        "1.0",
        "9" * 18,
        "9" * 19,
        "9223372036854775807",
        "-0",
        "1e3",
    ]
)
_odd_names = st.sampled_from(
    ["New", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "TBW102", "", "Tö", "a b", "T" * 128, "TopicA\x01"]
)
_odd_texts = st.text(
    alphabet=st.sampled_from([*'abWé"\\\n\x01\x02\x7f{}:, /\u2028', "\U0001f600"]), max_size=6
)
_odd_truths = st.sampled_from(["true", "false", "True", "1", "x", ""])
_plain_properties = st.sampled_from(
    [
        "UNIQ_KEY\x01ID7",
        "KEYS\x01k1 k2",
        "TAGS\x01red",
        "TAGS\x01blue",
        "WAIT\x01true",
        "CLUSTER\x01x",
        "",
        "a\x01",
        "\x01",
        "WAIT\x01",
        "XWAIT\x01false",
        "PGROUP\x01g",
    ]
)
_odd_properties = st.one_of(
    st.sampled_from(
        [
            "WAIT\x01false",
            "DELAY\x011",
            "DELAY\x01",
            "TIMER_DELAY_SEC\x015",
            "TRAN_MSG\x01true",
            "__CRC32#\x011234567890",
            "TAGS\x01é",
            "é\x01b",
            "x" * 17000,
        ]
    ),
    _odd_texts,
)


def _joined(pieces: SearchStrategy[str]) -> SearchStrategy[str]:
    return st.builds(
        lambda parts, end: "\x02".join(parts) + end,
        st.lists(pieces, max_size=4),
        st.sampled_from(["", "\x02"]),
    )


# Of these, one is left to closures.
SQL = ("TAGS IN ('red', 'blue')", "TAGS IS NULL OR NOT TAGS = 'red'", "TAGS = TAGS")

plain_texts = _joined(_plain_properties)
odd_texts = _joined(st.one_of(_plain_properties, _odd_properties)).filter(
    lambda text: len(text.encode()) < 32_000
)


def frame_of(header: Mapping[str, object], body: bytes = b"", **options: Any) -> bytes:
    """`options` are those of `json.dumps`."""
    text = json.dumps(header, **{"separators": (",", ":"), **options}).encode()
    return framed(text, body)


def framed(header: bytes, body: bytes = b"", serializer: int = 0) -> bytes:
    size = (4 + len(header) + len(body)).to_bytes(4, "big")
    return size + bytes([serializer]) + len(header).to_bytes(3, "big") + header + body


def command(
    code: int, fields: Mapping[str, object], opaque: int, **members: object
) -> dict[str, object]:
    return {
        "code": code,
        "extFields": fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 407,
        **members,
    }


def send_fields(topic: str, queue_id: str, properties: str, **others: str) -> dict[str, object]:
    fields: dict[str, object] = {
        "a": "g",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": queue_id,
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
    }
    return fields | others


# Even one that looks like properties is only a body.
_bodies = st.one_of(st.binary(max_size=300), st.just(b"\x02__CRC32#\x011234567890\x02"))
opaques = st.integers(-(2**31), 2**31 - 1)


@st.composite
def plain_sends(draw: DrawFn) -> bytes:
    fields = send_fields(
        draw(st.sampled_from(TOPICS)),
        draw(st.sampled_from(QUEUE_IDS)),
        draw(plain_texts),
        f=draw(st.sampled_from(["0", "1", "257", "48"])),
        g=str(draw(st.integers(0, 2**59))),
        h=str(draw(st.integers(-(2**31), 2**31 - 1))),
        j=str(draw(st.integers(0, 20))),
        n="broker-a",
    )
    return frame_of(command(310, fields, draw(opaques)), draw(_bodies))


# As `SendMessageHeader` names the fields of code 10.
_BY_NAME = {each.name: each.encode_name for each in msgspec.structs.fields(SendMessageHeader)}
_NAMES = {
    each.encode_name: _BY_NAME[each.name]
    for each in msgspec.structs.fields(SendMessageHeaderV2)
    if each.name != "broker_name"
}


def by_names(fields: Mapping[str, object]) -> dict[str, object]:
    return {_NAMES.get(name, name): value for name, value in fields.items()}


_wishes = st.sampled_from(
    [
        "",
        "DELAY\x011",
        "DELAY\x0118",
        "DELAY\x0119",
        "DELAY\x0101",
        "DELAY\x010",
        "TRAN_MSG\x01true\x02PGROUP\x01g",
        "TRAN_MSG\x01true",
        "TRAN_MSG\x01false",
        "DELAY\x012\x02TRAN_MSG\x01true\x02PGROUP\x01g",
        "DELAY\x012\x02REAL_TOPIC\x01x",
    ]
)


@st.composite
def waiting_sends(draw: DrawFn) -> bytes:
    """Sends by both codes that want a delay or a transaction, or nothing."""
    text = "\x02".join(filter(None, (draw(plain_texts), draw(_wishes))))
    fields = send_fields(
        draw(st.sampled_from(TOPICS)),
        draw(st.sampled_from(QUEUE_IDS)),
        text,
        f=draw(st.sampled_from(["0", "4", "8", "12", "17"])),
        j=str(draw(st.integers(0, 2))),
    )
    if draw(st.booleans()):
        return frame_of(command(10, by_names(fields), draw(opaques)), draw(_bodies))
    return frame_of(command(310, fields, draw(opaques)), draw(_bodies))


@st.composite
def batches(draw: DrawFn, texts: SearchStrategy[str] = plain_texts) -> bytes:
    items = draw(st.lists(st.tuples(st.integers(0, 9), _bodies, texts), min_size=1, max_size=5))
    fields = send_fields(
        draw(st.sampled_from(TOPICS)), draw(st.sampled_from(QUEUE_IDS)), draw(texts), m="true"
    )
    body = encode_batch([(flag, body, text.encode()) for flag, body, text in items])
    return frame_of(command(320, fields, draw(opaques)), body)


@st.composite
def odd_batches(draw: DrawFn) -> bytes:
    frame = draw(batches(odd_texts))
    at = draw(st.integers(1, 60))
    if draw(st.booleans()) and at < len(frame):
        # In the body, for the most part, from its end on.
        frame = frame[:-at] + bytes([draw(st.integers(0, 255))]) + frame[len(frame) - at + 1 :]
    return frame


@st.composite
def pulls(draw: DrawFn) -> bytes:
    """Own subscriptions and those of heartbeats, with tags and without, that wait and do not."""
    says_own = draw(st.booleans())
    flags = draw(st.sampled_from([0, 1, 2, 3])) | (4 if says_own else 0)
    fields: dict[str, object] = {
        "consumerGroup": draw(st.sampled_from(GROUPS)),
        "topic": draw(st.sampled_from(TOPICS)),
        "queueId": draw(st.sampled_from(QUEUE_IDS)),
        "queueOffset": str(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 12]))),
        "maxMsgNums": str(draw(st.sampled_from([32, 32, 32, 32, 2, 1, 0, -1]))),
        "sysFlag": str(flags),
        "commitOffset": str(draw(st.integers(0, 9))),
        "suspendTimeoutMillis": "15000",
        "subVersion": str(draw(st.sampled_from([0, 0, 1, 1, 2]))),
        "expressionType": draw(st.sampled_from(["TAG", "TAG", "TAG", "SQL92"])),
    }
    if says_own:
        fields["subscription"] = draw(
            st.sampled_from(["*", "*", "red", "red || blue", "first || x", "none", *SQL])
        )
    if draw(st.booleans()):
        fields["maxMsgBytes"] = draw(st.sampled_from(["262144", "2147483647", "400"]))
        fields["requestSource"] = "0"
        fields["bname"] = "broker-a"
    return frame_of(command(draw(st.sampled_from([11, 11, 361])), fields, draw(opaques)))


def pop_fields(group: str, topic: str, queue_id: str, count: int) -> dict[str, object]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "maxMsgNums": str(count),
        "invisibleTime": "60000",
        "pollTime": "0",
        "bornTime": "0",
        "initMode": "0",
        "order": "false",
    }


@st.composite
def pops(draw: DrawFn) -> bytes:
    """Of one queue and of any, with filters and without, and now and then an odd one."""
    fields = pop_fields(
        draw(st.sampled_from([*GROUPS, *GROUPS, "new"])),
        draw(st.sampled_from(TOPICS)),
        draw(st.sampled_from(["-1", "-1", *QUEUE_IDS])),
        draw(st.sampled_from([1, 2, 2, 3, 32])),
    )
    odd: dict[str, list[str]] = {
        "invisibleTime": ["1000", "0", "-1", "9" * 18],
        "pollTime": ["15000"],
        "bornTime": ["1700000000000", "1"],
        "initMode": ["1"],
        "order": ["true"],
        "queueId": ["4"],
        "maxMsgNums": ["0", "33"],
    }
    name = draw(st.sampled_from([None, None, None, *odd]))
    if name is not None:
        fields[name] = draw(st.sampled_from(odd[name]))
    if draw(st.booleans()):
        fields["exp"] = draw(st.sampled_from(["*", "*", "red", "red || blue", "none", "", *SQL]))
        fields["expType"] = draw(st.sampled_from(["TAG", "TAG", "TAG", "SQL92", ""]))
    return frame_of(command(200_050, fields, draw(opaques)))


@st.composite
def odd_requests(draw: DrawFn) -> bytes:
    """A send, pull or pop with something about it that is not usual, if only how it is written."""
    is_send = draw(st.booleans())
    if is_send:
        fields = send_fields(
            draw(st.sampled_from(TOPICS)), draw(st.sampled_from(QUEUE_IDS)), draw(odd_texts)
        )
        code = draw(st.sampled_from([310, 310, 310, 320, 10]))
    else:
        text = draw(st.one_of(pulls(), pops()))[8:]
        header = json.loads(text)
        fields, code = header["extFields"], header["code"]
    _spoil_field(draw, fields)
    flag = draw(st.sampled_from([0, 0, 0, 0, 2, 1, 3]))
    header = command(code, fields, draw(opaques), flag=flag)
    _spoil_member(draw, header)
    separators = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": ")]))
    text = json.dumps(header, separators=separators, ensure_ascii=draw(st.booleans())).encode()
    if draw(st.integers(0, 15)) == 0:
        text = text.replace(b'"b":', b'"b":"TopicB","b":', 1)
    if draw(st.integers(0, 15)) == 0:
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + bytes([draw(st.integers(0, 255))]) + text[at + 1 :]
    return framed(text, draw(st.binary(max_size=60)) if is_send else b"")


def _spoil_field(draw: DrawFn, fields: dict[str, object]) -> None:
    match draw(
        st.sampled_from(["value", "value", "drop", "order", "number", "null", "more", "no"])
    ):
        case "value":
            name = draw(st.sampled_from(sorted(fields)))
            fields[name] = draw(st.one_of(_odd_numbers, _odd_names, _odd_texts, _odd_truths))
        case "drop":
            del fields[draw(st.sampled_from(sorted(fields)))]
        case "order":
            items = draw(st.permutations(list(fields.items())))
            fields.clear()
            fields.update(items)
        case "number":
            fields[draw(st.sampled_from(sorted(fields)))] = 1
        case "null":
            fields[draw(st.sampled_from(sorted(fields)))] = None
        case "more":
            name = draw(
                st.sampled_from(["lo", "nsd", "oway", "l", "n", "ns", "bname", "Signature"])
            )
            fields[name] = draw(st.one_of(_odd_numbers, _odd_texts, _odd_truths))


def _spoil_member(draw: DrawFn, header: dict[str, object]) -> None:
    match draw(st.sampled_from(["no", "no", "no", "remark", "null", "unknown", "drop", "value"])):
        case "remark":
            header["remark"] = draw(_odd_texts)
        case "null":
            header["remark"] = None
        case "unknown":
            header["what"] = [1, {"a": 2}]
        case "drop":
            del header[draw(st.sampled_from(sorted(header.keys() - {"code"})))]
        case "value":
            name = draw(st.sampled_from(["opaque", "flag", "version", "language", "code"]))
            header[name] = draw(st.sampled_from([2**31, -(2**31), "1", None, 0, "JAVA"]))


def heartbeats() -> SearchStrategy[bytes]:
    return st.builds(
        heartbeat,
        st.sampled_from(GROUPS),
        st.sampled_from(["*", "red", "a || b"]),
        st.integers(0, 2),
    )


def heartbeat(group: str, expression: str, version: int) -> bytes:
    """Of a consumer that reads all topics."""
    subscriptions = [
        {"topic": topic, "subString": expression, "subVersion": version} for topic in TOPICS
    ]
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": subscriptions,
    }
    body = {"clientID": "client", "consumerDataSet": [consumer], "producerDataSet": []}
    return frame_of(command(34, {}, 1), json.dumps(body).encode())


hostile_bytes = st.one_of(
    st.binary(min_size=8, max_size=40),
    st.builds(framed, st.binary(max_size=60), st.binary(max_size=9)),
    st.builds(lambda header: framed(header, b"", 1), st.binary(max_size=60)),
)

plain_frames = st.one_of(
    plain_sends(), plain_sends(), batches(), pulls(), pulls(), pops(), pops(), pops()
)
any_frames = st.one_of(
    *[plain_frames] * 6,
    waiting_sends(),
    odd_requests(),
    odd_requests(),
    odd_batches(),
    heartbeats(),
)
