"""The life of a message, put in order."""

from datetime import UTC, datetime, timedelta

from roquet.client.hooks import ConsumeOutcome, MessageKind
from roquet.client.trace.tracing import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
)
from roquet.pipeline.jobs.story import FoundMessage, story_events

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
START_MS = round(START.timestamp() * 1000)


def found(topic: str, stored_s: float, **more: object) -> FoundMessage:
    message = FoundMessage(
        topic=topic,
        broker="broker-a",
        queue=0,
        offset=7,
        id="ID",
        offset_id="PLACE",
        born=START,
        stored=START + timedelta(seconds=stored_s),
        born_host="127.0.0.1:5",
        tags="paid",
        keys="k",
        retry_count=0,
        body_size=3,
        properties={},
    )
    return message._replace(**more)  # type: ignore[arg-type]


def before(at_ms: int, retry: int) -> SubBeforeRecord:
    return SubBeforeRecord(START_MS + at_ms, None, "billing", f"R{retry}", "ID", retry, None)


def after(at_ms: int, retry: int, *, is_success: bool, group: str | None) -> SubAfterRecord:
    outcome = ConsumeOutcome.SUCCESS if is_success else ConsumeOutcome.FAILED
    moment = START_MS + at_ms if at_ms else 0
    return SubAfterRecord(f"R{retry}", "ID", 4, is_success, None, outcome, moment, group)


def sent(at_ms: int) -> PubRecord:
    return PubRecord(
        START_MS + at_ms, None, "shop", "orders", "ID", None, None, "127.0.0.1:1", 3, 3,
        MessageKind.NORMAL, None, True,
    )  # fmt: skip


def test_a_story_starts_with_the_message_even_if_its_producer_looked_at_the_clock_before() -> None:
    reported = story_events([found("orders", 0.002)], [sent(-1)])
    assert [event.what for event in reported] == ["created", "sent", "stored"]
    assert [event.time for event in reported][:2] == [START, START]


def test_a_story_is_in_the_order_of_time() -> None:
    messages = [
        found(
            "%DLQ%billing", 9, retry_count=1, properties={"DEAD_LETTER_REASON": "no such account"}
        ),
        found("%RETRY%billing", 5, retry_count=1),
        found("orders", 0.002),
    ]
    traces: list[TraceRecord] = [
        after(6100, 1, is_success=False, group=None),
        before(6000, 1),
        before(100, 0),
        after(200, 0, is_success=False, group="billing"),
        sent(3),
    ]
    reported = story_events(messages, traces)
    assert [(event.what, event.group) for event in reported] == [
        ("created", None),
        ("stored", None),
        ("sent", "shop"),
        ("delivered to a listener", "billing"),
        ("not done", "billing"),
        ("ready for retry", "billing"),
        ("delivered to a listener", "billing"),
        ("not done", "billing"),
        ("moved to the dead-letter queue", "billing"),
    ]
    assert reported[-1].details == "no such account, after 1 retries"
    assert reported[1].place == "orders@broker-a@0:7"
    assert {event.source for event in reported} == {"message", "trace"}


def test_what_old_clients_do_not_date_is_left_out() -> None:
    assert story_events([], [after(0, 0, is_success=True, group=None)]) == []


def test_a_transaction_is_part_of_it() -> None:
    ended = EndTransactionRecord(
        START_MS, None, "shop", "orders", "ID", None, None, None, MessageKind.COMMIT, "ID",
        "COMMIT_MESSAGE", False,
    )  # fmt: skip
    message = found("orders", 1, properties={"TRAN_MSG": "true"})
    assert [event.what for event in story_events([message], [ended])] == [
        "created",
        "transaction ended",
        "stored, its transaction committed",
    ]
