"""How far a stream is behind, by what Spark tells."""

import json

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.jobs.query_lag import lag_told
from roquet.pipeline.stream_offset import StreamOffset

FIRST, SECOND = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


def told(offset: StreamOffset | None) -> str | None:
    return None if offset is None else json.dumps(offset.to_json())


def lag(end: StreamOffset | None, latest: StreamOffset | None) -> int | None:
    return lag_told({"sources": [{"endOffset": told(end), "latestOffset": told(latest)}]})


def test_lag_is_what_is_there_and_was_not_read() -> None:
    latest = StreamOffset({FIRST: 10, SECOND: 5})
    assert lag(StreamOffset({FIRST: 7, SECOND: 5}), latest) == 3
    assert lag(latest, latest) == 0


def test_a_queue_that_went_back_does_not_hide_others() -> None:
    assert lag(StreamOffset({FIRST: 9, SECOND: 1}), StreamOffset({FIRST: 2, SECOND: 5})) == 4


def test_what_is_not_told_is_not_known() -> None:
    assert lag(StreamOffset({FIRST: 7}), None) is None
    assert lag(None, StreamOffset({FIRST: 7})) is None
    assert lag_told({"sources": []}) is None
    end = told(StreamOffset({FIRST: 7}))
    assert lag_told({"sources": [{"endOffset": end, "latestOffset": "null"}]}) is None
