"""Trace records as text: ours and those of Java clients, old and new."""

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from roquet.client.hooks import ConsumeOutcome, MessageKind
from roquet.client.trace.tracing import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
    parse_traces,
    trace_text,
)

PUB = PubRecord(
    timestamp=1700000000000,
    region="DefaultRegion",
    group="shop",
    topic="orders",
    message_id="ID",
    tags=None,
    keys="k1 k2",
    store_host="127.0.0.1:10911",
    body_size=7,
    duration_ms=3,
    kind=MessageKind.DELAYED,
    offset_id="OFFSET",
    is_success=True,
)
BEFORE = SubBeforeRecord(1700000000000, "DefaultRegion", "billing", "REQUEST", "ID", 2, None)
AFTER = SubAfterRecord(
    "REQUEST", "ID", 5, False, "k", ConsumeOutcome.FAILED, 1700000000005, "billing"
)
END = EndTransactionRecord(
    timestamp=1700000000000,
    region="DefaultRegion",
    group="shop",
    topic="orders",
    message_id="ID",
    tags="red",
    keys=None,
    store_host="127.0.0.1:10911",
    kind=MessageKind.COMMIT,
    transaction_id="ID",
    state="COMMIT_MESSAGE",
    is_answer=False,
)
TEXTS = {
    PUB: "Pub|1700000000000|DefaultRegion|shop|orders|ID|null|k1 k2|127.0.0.1:10911|7|3|3|OFFSET"
    "|true",
    BEFORE: "SubBefore|1700000000000|DefaultRegion|billing|REQUEST|ID|2|null",
    AFTER: "SubAfter|REQUEST|ID|5|false|k|4|1700000000005|billing",
    END: "EndTransaction|1700000000000|DefaultRegion|shop|orders|ID|red|null|127.0.0.1:10911|2|ID"
    "|COMMIT_MESSAGE|false",
}


def wire(text: str) -> str:
    return text.replace("|", "\x01") + "\x02"


@pytest.mark.parametrize(("record", "text"), TEXTS.items(), ids=lambda each: type(each).__name__)
def test_a_record_is_written_and_read_as_java_does(record: TraceRecord, text: str) -> None:
    assert trace_text(record) == wire(text)
    assert list(parse_traces(wire(text))) == [record]


def test_records_follow_each_other() -> None:
    assert list(parse_traces("".join(map(wire, TEXTS.values())))) == list(TEXTS)


def test_what_old_clients_leave_out_is_not_missed() -> None:
    (pub,) = parse_traces(wire("Pub|1|R|g|t|ID|null|null|host|7|3|0|true"))
    assert isinstance(pub, PubRecord)
    assert (pub.offset_id, pub.is_success) == (None, True)
    short, longer = parse_traces(
        wire("SubAfter|RQ|ID|5|true|k") + wire("SubAfter|RQ|ID|5|true|k|1")
    )
    assert isinstance(short, SubAfterRecord)
    assert isinstance(longer, SubAfterRecord)
    assert (short.outcome, longer.outcome) == (ConsumeOutcome.SUCCESS, ConsumeOutcome.TIMED_OUT)


def test_what_new_clients_add_does_not_disturb() -> None:
    assert list(parse_traces(wire(TEXTS[PUB] + "|10.0.0.1"))) == [PUB]


@pytest.mark.parametrize("text", ["", "Recall|1", "Pub|soon", "Pub|1|R", "SubAfter|RQ|ID|x|true|k"])
def test_what_cannot_be_read_is_skipped(text: str) -> None:
    assert list(parse_traces(wire(text) + wire(TEXTS[AFTER]))) == [AFTER]


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    assert isinstance(list(parse_traces(text)), Sequence)


def test_a_key_cannot_end_a_field() -> None:
    text = trace_text(SubBeforeRecord(1, None, "g", "RQ", "ID", 0, "a\x01b\x02c"))
    assert text.count("\x01") == 7
    assert text.count("\x02") == 1
