"""Typed headers and the texts they travel as."""

import msgspec
import pytest

from roquet.protocol.errors import BadHeader, BadHeaderField
from roquet.protocol.fields import (
    NO_FIELDS,
    Header,
    Int32,
    Int64,
    field_texts,
    fields_of,
    header_texts,
    read_header,
)


class _PullLike(Header):
    consumer_group: str
    queue_id: Int32
    queue_offset: Int64 = 0
    is_unit: bool = False
    subscription: str | None = None
    batch_size: Int32 | None = None
    broker_name: str | None = msgspec.field(name="bname", default=None)


class _Optional(Header):
    topic: str | None = None


def read(json: str) -> _PullLike:
    return read_header(_PullLike, msgspec.Raw(json.encode()))


def test_texts_become_typed_values() -> None:
    header = read('{"consumerGroup":"g","queueId":"3","isUnit":"true","bname":"b","what":"?"}')
    assert header == _PullLike(consumer_group="g", queue_id=3, is_unit=True, broker_name="b")


def test_none_is_absent_and_defaults_are_written() -> None:
    assert header_texts(_PullLike(consumer_group="g", queue_id=3, is_unit=True)) == {
        "consumerGroup": "g",
        "queueId": "3",
        "queueOffset": "0",
        "isUnit": "true",
    }


def test_what_is_written_is_read_back() -> None:
    header = _PullLike(
        consumer_group='\x01ä\U0001f600"',
        queue_id=-1,
        queue_offset=2**63 - 1,
        subscription="",
        batch_size=0,
    )
    assert read_header(_PullLike, fields_of(header)) == header


@pytest.mark.parametrize(
    ("json", "queue_id", "is_unit"),
    [
        ('{"consumerGroup":"g","queueId":8,"isUnit":true}', 8, True),  # numbers, not texts
        ('{"consumerGroup":"g","queueId":"+8"}', 8, False),
        ('{"consumerGroup":"g","queueId":"08"}', 8, False),
        ('{"consumerGroup":"g","queueId":"8","isUnit":"TRUE"}', 8, True),
        ('{"consumerGroup":"g","queueId":"8","isUnit":"yes"}', 8, False),
        ('{"consumerGroup":"g","queueId":"8","isUnit":null}', 8, False),
        ('{"consumerGroup":"g","queueId":"8","batchSize":""}', 8, False),  # binary form of null
    ],
)
def test_what_java_reads_is_read(json: str, queue_id: int, is_unit: bool) -> None:
    header = read(json)
    assert (header.queue_id, header.is_unit, header.batch_size) == (queue_id, is_unit, None)


def test_a_number_where_a_text_belongs_is_taken_as_its_text() -> None:
    assert read('{"consumerGroup":17,"queueId":"1"}').consumer_group == "17"


@pytest.mark.parametrize(
    ("json", "field", "text"),
    [
        ('{"queueId":"1"}', "consumerGroup", None),
        ('{"consumerGroup":null,"queueId":"1"}', "consumerGroup", None),
        ('{"consumerGroup":"g"}', "queueId", None),
        ('{"consumerGroup":"g","queueId":""}', "queueId", ""),
        ('{"consumerGroup":"g","queueId":"x"}', "queueId", "x"),
        ('{"consumerGroup":"g","queueId":"2147483648"}', "queueId", "2147483648"),
        (
            '{"consumerGroup":"g","queueId":"1","queueOffset":"9999999999999999999"}',
            "queueOffset",
            "9" * 19,
        ),
        ('{"consumerGroup":"g","queueId":"1","batchSize":"1 "}', "batchSize", "1 "),
    ],
)
def test_a_missing_or_unreadable_field_is_named(json: str, field: str, text: str | None) -> None:
    with pytest.raises(BadHeaderField) as caught:
        read(json)
    assert (caught.value.header, caught.value.field, caught.value.text) == (
        "_PullLike",
        field,
        text,
    )


@pytest.mark.parametrize("json", ["[]", "7", '{"a":[]}', '{"a":', '{"a":"\\ud800"}', "[" * 9999])
def test_fields_that_are_no_map_of_texts_are_refused(json: str) -> None:
    with pytest.raises(BadHeader):
        read(json)
    with pytest.raises(BadHeader):
        field_texts(msgspec.Raw(json.encode()))


def test_fields_that_are_no_utf8_are_refused() -> None:
    fields = msgspec.Raw(b'{"consumerGroup":"\xe5"}')
    with pytest.raises(BadHeader):
        read_header(_PullLike, fields)
    with pytest.raises(BadHeader):
        field_texts(fields)


def test_absent_fields_are_an_empty_map() -> None:
    assert read_header(_Optional, NO_FIELDS) == _Optional()
    assert field_texts(msgspec.Raw(b"null")) == {}
    with pytest.raises(BadHeaderField):
        read_header(_PullLike, NO_FIELDS)
