"""The messages of transactions, held against those that Apache 4.9.7 wrote and sent."""

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from roquet.broker.messages.appending import NewMessage
from roquet.broker.transactions.half_messages import (
    committed,
    given_up,
    half_of,
    kept,
    op_message,
    question_record,
    real_queue,
    renewed,
    resumed,
)
from roquet.net.errors import Refused
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import CheckTransactionHeader
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.properties import parse_properties
from roquet.protocol.messages.record import read_record
from roquet.store.appends import Appended
from tests.support.drafts import BORN_HOST, STORE_HOST
from tests.support.golden_frames import golden_frames
from tests.support.golden_records import golden_records

STORES = ("v49_clean", "v49_crashed", "ha_49_master")
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"


class Written(NamedTuple):
    """All that a record says, but for its place and time. Java's order of properties is that of
    a hash map and means nothing; their size shows that each is there once."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    properties_size: int
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int


def by_apache(message: StoredMessage) -> Written:
    return Written(
        message.topic,
        message.queue_id,
        message.body,
        message.properties,
        len(message.raw_properties),
        message.flag,
        message.sys_flag,
        message.born_timestamp,
        message.born_host,
        message.store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


def by_us(message: NewMessage) -> Written:
    return Written(
        message.topic,
        message.queue_id,
        message.body,
        parse_properties(message.properties),
        len(message.properties.encode()),
        message.flag,
        message.sys_flag,
        message.born_timestamp,
        message.born_host,
        message.store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


def golden(store: str) -> list[StoredMessage]:
    return [read_record(each.data) for each in golden_records() if each.store == store]


def halves(store: str) -> list[StoredMessage]:
    return [message for message in golden(store) if message.topic == HALF_TOPIC]


def original(half: StoredMessage, store: str) -> StoredMessage:
    """The copy of a half message that was put before this one."""
    before = [
        each
        for each in halves(store)
        if each.properties["UNIQ_KEY"] == half.properties["UNIQ_KEY"]
        and each.queue_offset < half.queue_offset
    ]
    return before[-1]


# --- held against Apache's stores ---


@pytest.mark.parametrize("store", STORES)
def test_a_half_message_is_written_as_apache_does(store: str) -> None:
    first = [half for half in halves(store) if "TRANSACTION_CHECK_TIMES" not in half.properties]
    assert len(first) >= 6
    for half in first:
        place = real_queue(half)
        sent = {
            name: value
            for name, value in half.properties.items()
            if name not in ("REAL_TOPIC", "REAL_QID")
        }
        send = replace(
            NewMessage.copy_of(half), topic=place.topic, queue_id=place.queue_id, sys_flag=4
        )
        text = "\x02".join(f"{name}\x01{value}" for name, value in sent.items())
        assert by_us(half_of(replace(send, properties=text), "other")) == by_apache(half)


@pytest.mark.parametrize("store", STORES)
def test_a_committed_message_is_written_as_apache_does(store: str) -> None:
    places = {half.physical_offset: half for half in halves(store)}
    commits = [message for message in golden(store) if message.sys_flag & 0xC == 8]
    assert len(commits) >= 3
    for message in commits:
        half = places[message.prepared_transaction_offset]
        assert by_us(committed(half)) == by_apache(message)


@pytest.mark.parametrize("store", STORES)
def test_an_op_message_is_written_as_apache_does(store: str) -> None:
    ops = [message for message in golden(store) if message.topic == OP_TOPIC]
    assert len(ops) >= 4
    for op in ops:
        ours = op_message(int(op.body), op.store_host, op.born_timestamp)
        assert by_us(ours) == by_apache(op)
        assert ours.properties.encode() == op.raw_properties


@pytest.mark.parametrize("store", STORES)
def test_a_renewed_half_message_is_written_as_apache_does(store: str) -> None:
    again = [half for half in halves(store) if "TRANSACTION_CHECK_TIMES" in half.properties]
    assert len(again) >= 3
    for half in again:
        count = int(half.properties["TRANSACTION_CHECK_TIMES"])
        assert by_us(renewed(original(half, store), count)) == by_apache(half)


def test_a_half_message_that_is_given_up_is_written_as_apache_does() -> None:
    store = "ha_49_master"
    discarded = [message for message in golden(store) if message.topic == GIVEN_UP_TOPIC]
    assert len(discarded) == 4
    for message in discarded:
        key = message.properties["UNIQ_KEY"]
        last = [half for half in halves(store) if half.properties["UNIQ_KEY"] == key][-1]
        assert by_us(given_up(last)) == by_apache(message)


def test_a_producer_is_shown_the_record_that_apache_shows() -> None:
    questions = [
        frame.command
        for frame in golden_frames()
        if frame.request_code == 39 and "_s49_" in frame.scenario
    ]
    assert len(questions) >= 6
    for command in questions:
        header = read_header(CheckTransactionHeader, command.fields)
        shown = read_record(command.body)
        place = Appended(header.tran_state_table_offset, header.commit_log_offset, 0, 0)
        # What lay in the store before it was put again.
        half = read_record(command.body)
        half.topic, half.queue_id = HALF_TOPIC, 0
        ours = question_record(half, renewed(half, 1), place)
        assert read_record(ours).properties == shown.properties
        assert ours[: -len(shown.raw_properties)] == command.body[: -len(shown.raw_properties)]


# --- beyond what was recorded ---


def sent(**members: object) -> NewMessage:
    message = NewMessage(
        topic="TopicA",
        queue_id=3,
        body=b"pay",
        properties="UNIQ_KEY\x01K\x02PGROUP\x01payers",
        born_timestamp=1,
        born_host=BORN_HOST,
        store_host=STORE_HOST,
    )
    return replace(message, **members)


def stored(
    message: NewMessage, queue_offset: int = 7, physical_offset: int = 4096
) -> StoredMessage:
    draft = RecordDraft(
        queue_id=message.queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        body=message.body,
        topic=message.topic.encode(),
        properties=message.properties.encode(),
        reconsume_times=message.reconsume_times,
    )
    buffer = bytearray(draft.size)
    draft.write(buffer, 0, queue_offset, physical_offset, 5)
    return read_record(buffer)


@pytest.mark.parametrize(
    "name",
    [
        "DELAY",
        "TIMER_DELAY_SEC",
        "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS",
        "TRANSACTION_CHECK_TIMES",
        "TRAN_PREPARED_QUEUE_OFFSET",
    ],
)
def test_a_transaction_has_no_delay_and_no_past(name: str) -> None:
    half = half_of(sent(properties=f"{name}\x013\x02PGROUP\x01p"), "p")
    assert parse_properties(half.properties) == {
        "PGROUP": "p",
        "REAL_TOPIC": "TopicA",
        "REAL_QID": "3",
    }


def test_the_group_of_the_sender_stands_in_for_one_that_is_not_named() -> None:
    assert parse_properties(half_of(sent(properties=""), "senders").properties)["PGROUP"] == (
        "senders"
    )


def test_a_compressed_message_stays_compressed() -> None:
    half = stored(half_of(sent(sys_flag=0x305), "p"))
    assert half.sys_flag == 0x301
    assert committed(half).sys_flag == 0x309


def test_the_flag_of_the_user_survives_a_commit_and_giving_up_but_no_copy() -> None:
    half = stored(half_of(sent(flag=9, reconsume_times=2), "p"))
    assert (committed(half).flag, committed(half).reconsume_times) == (9, 2)
    assert (given_up(half).flag, given_up(half).reconsume_times) == (9, 2)
    assert (renewed(half, 1).flag, renewed(half, 1).reconsume_times) == (0, 0)
    assert (kept(half).flag, kept(half).reconsume_times) == (0, 0)


def test_a_copy_that_is_kept_remembers_the_offset_of_the_first() -> None:
    first = stored(half_of(sent(), "p"), queue_offset=7)
    second = stored(kept(first), queue_offset=12)
    third = stored(kept(second), queue_offset=20)
    assert second.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "7"
    assert third.properties["TRAN_PREPARED_QUEUE_OFFSET"] == "7"


def test_what_is_resumed_starts_to_count_again() -> None:
    last = stored(given_up(stored(renewed(stored(half_of(sent(), "p")), 15))))
    again = resumed(last)
    assert (again.topic, again.queue_id) == (HALF_TOPIC, 0)
    assert parse_properties(again.properties)["TRANSACTION_CHECK_TIMES"] == "0"


@pytest.mark.parametrize(
    "properties",
    ["REAL_QID\x010", "REAL_TOPIC\x01T", "REAL_TOPIC\x01T\x02REAL_QID\x01-1", "REAL_QID\x01x"],
)
def test_a_message_that_belongs_nowhere_is_refused(properties: str) -> None:
    with pytest.raises(Refused, match="REAL_TOPIC"):
        real_queue(stored(sent(properties=properties)))
