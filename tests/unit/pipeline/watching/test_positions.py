"""Where a query is, by reports as Spark gives them."""

import json

from roquet import QueueRef
from roquet.pipeline.queue_offsets import StreamOffset
from roquet.pipeline.watching.positions import reported_lag, reported_positions

FIRST = QueueRef("orders", "broker-a", 0)
SECOND = QueueRef("orders", "broker-a", 1)


def offset_text(offset: StreamOffset | None) -> str | None:
    return None if offset is None else json.dumps(offset.to_json())


def lag(end: StreamOffset | None, latest: StreamOffset | None) -> int | None:
    return reported_lag(
        {"sources": [{"endOffset": offset_text(end), "latestOffset": offset_text(latest)}]}
    )


def test_lag_is_what_is_there_and_was_not_read() -> None:
    latest = StreamOffset({FIRST: 10, SECOND: 5})
    assert lag(StreamOffset({FIRST: 7, SECOND: 5}), latest) == 3
    assert lag(latest, latest) == 0


def test_a_queue_that_went_back_does_not_hide_others() -> None:
    assert lag(StreamOffset({FIRST: 9, SECOND: 1}), StreamOffset({FIRST: 2, SECOND: 5})) == 4


def test_what_is_not_reported_is_unknown() -> None:
    assert lag(StreamOffset({FIRST: 7}), None) is None
    assert lag(None, StreamOffset({FIRST: 7})) is None
    assert reported_lag({"sources": []}) is None
    end = offset_text(StreamOffset({FIRST: 7}))
    assert reported_lag({"sources": [{"endOffset": end, "latestOffset": "null"}]}) is None


def test_sources_of_other_formats_are_left_out() -> None:
    ours = offset_text(StreamOffset({FIRST: 7}))
    sources = [
        {"startOffset": "None", "endOffset": ours, "latestOffset": ours},
        {"startOffset": "0", "endOffset": "17", "latestOffset": "17"},
        {"startOffset": None, "endOffset": '{"logOffset":3}', "latestOffset": "null"},
    ]
    (found,) = reported_positions({"sources": sources})
    assert found.end == {FIRST: 7}
    assert reported_lag({"sources": sources}) is None
