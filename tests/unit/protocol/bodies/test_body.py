import msgspec
import pytest

from roquet.protocol.bodies.body import (
    Body,
    MessageQueue,
    QueueTable,
    always,
    read_body,
    write_body,
)
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import Int32


class Part(Body, kw_only=True):
    part_count: Int32 = always(3)


class Sample(Body, kw_only=True):
    addresses: dict[Int32, str] = always({})
    missing: str | None = None
    offsets: QueueTable[Part] = always(QueueTable())
    parts: list[Part] = always([])
    required: str


QUEUE = MessageQueue(topic="t", broker_name="b", queue_id=1)


def test_defaults_are_written_and_nones_are_not() -> None:
    assert write_body(Sample(required="r")) == (
        b'{"addresses":{},"offsets":{},"parts":[],"required":"r"}'
    )


def test_two_bodies_do_not_share_a_default() -> None:
    first, second = Sample(required="r"), Sample(required="r")
    first.parts.append(Part())
    first.addresses[0] = "a"
    first.offsets[QUEUE] = Part()
    assert second == Sample(required="r")


def test_integer_keys_are_read_quoted_and_bare_and_written_quoted() -> None:
    body = Sample(addresses={0: "a", -1: "b"}, required="r")
    assert read_body(Sample, b'{"addresses":{"0":"a","-1":"b"},"required":"r"}') == body
    assert read_body(Sample, b'{"addresses":{0:"a",-1 :"b"},"required":"r"}') == body
    assert b'{"0":"a","-1":"b"}' in write_body(body)


def test_queue_keys_are_read_quoted_and_bare_and_written_bare() -> None:
    body = Sample(offsets=QueueTable({QUEUE: Part(part_count=7)}), required="r")
    bare = (
        b'{"offsets":{{"brokerName":"b","queueId":1,"topic":"t"}:{"partCount":7}},"required":"r"}'
    )
    quoted = msgspec.json.encode(
        {
            "offsets": {'{"brokerName":"b","queueId":1,"topic":"t"}': {"partCount": 7}},
            "required": "r",
        }
    )
    assert read_body(Sample, bare) == body
    assert read_body(Sample, quoted) == body
    assert write_body(body) == (
        b'{"addresses":{},"offsets":{{"brokerName":"b","queueId":1,"topic":"t"}:{"partCount":7}},'
        b'"parts":[],"required":"r"}'
    )


def test_null_means_absent() -> None:
    text = b'{"addresses":null,"missing":null,"offsets":null,"parts":null,"required":"r"}'
    assert read_body(Sample, text) == Sample(required="r")


def test_numbers_may_be_texts() -> None:
    assert read_body(Part, b'{"partCount":"8"}') == Part(part_count=8)


def test_unknown_members_are_ignored() -> None:
    assert read_body(Part, b'{"other":{"a":[1]},"partCount":8}') == Part(part_count=8)


def test_a_reference_is_not_taken_for_an_object_without_members() -> None:
    text = b'{"parts":[{"partCount":8},{"$ref":"$.parts[0]"}],"required":"r"}'
    assert read_body(Sample, text).parts == [Part(part_count=8), Part(part_count=8)]


def test_a_body_may_be_a_list() -> None:
    assert read_body(list[Part], b"[{}]") == [Part()]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",  # a member is missing
        b"null",
        b'{"required":',
        b'{"required":"\xff"}',
        b'{"required":"\\ud800"}',
        b'{"required":1.5,"parts":7}',
        b'{"required":"r","parts":[null]}',
        b'{"required":"r","offsets":[]}',
        b'{"required":"r","offsets":{"not a queue":{}}}',
        b'{"required":"r","offsets":{{"topic":"t"}:{}}}',
        b'{"required":"r","parts":[{"partCount":2147483648}]}',
        b'{"required":"r","parts":[{"$ref":"$.nowhere"}]}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"required":"r","addresses":{%b:""}}' % (b"9" * 10_000),
    ],
)
def test_what_is_not_the_body_is_refused_by_name(text: bytes) -> None:
    with pytest.raises(BadBody) as caught:
        read_body(Sample, text)
    assert caught.value.body == "Sample"


def test_a_value_of_a_strange_type_is_our_bug() -> None:
    with pytest.raises(TypeError, match="object has no place in a body"):
        write_body({"a": object()})


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    queues = [
        MessageQueue(topic=topic, broker_name=broker_name, queue_id=queue_id)
        for topic in "ab"
        for broker_name in "cd"
        for queue_id in (2, 10)
    ]
    assert sorted(set(queues)) == queues
