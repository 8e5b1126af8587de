import logging

import pytest

from roquet.throttled_log import PERIOD_S, ThrottledLog

log = logging.getLogger(__name__)


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def throttled(time: Time) -> ThrottledLog:
    return ThrottledLog(log, time)


def test_the_first_line_of_a_key_is_logged_at_once(
    throttled: ThrottledLog, caplog: pytest.LogCaptureFixture
) -> None:
    throttled.warning("disk", "disk full")
    throttled.error("peer", "peer gone")
    assert caplog.record_tuples == [
        (__name__, logging.WARNING, "disk full"),
        (__name__, logging.ERROR, "peer gone"),
    ]


def test_repetitions_are_counted_and_logged_once_a_period(
    throttled: ThrottledLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for attempt in range(4):
        throttled.warning("disk", f"disk full, attempt {attempt}")
    assert caplog.messages == ["disk full, attempt 0"]
    time.now_s += PERIOD_S
    throttled.flush()
    assert caplog.messages[1:] == ["disk full, attempt 3 (3 times)"]


def test_a_repetition_after_its_period_needs_no_flush(
    throttled: ThrottledLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    throttled.warning("disk", "disk full")
    time.now_s += PERIOD_S
    throttled.warning("disk", "disk still full")
    throttled.warning("disk", "disk still full")
    assert caplog.messages == ["disk full", "disk still full"]


def test_one_call_may_count_for_many(
    throttled: ThrottledLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    throttled.warning("disk", "message refused")
    throttled.add("disk", "message refused", count=32)
    time.now_s += PERIOD_S
    throttled.flush()
    assert caplog.messages[1:] == ["message refused (32 times)"]


def test_a_key_that_is_silent_for_a_period_is_forgotten(
    throttled: ThrottledLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    throttled.warning("disk", "disk full")
    time.now_s += PERIOD_S
    throttled.flush()
    assert not throttled.clear("disk")
    throttled.warning("disk", "disk full")
    assert caplog.messages == ["disk full", "disk full"]


def test_after_a_condition_is_over_its_next_line_is_a_first_one(
    throttled: ThrottledLog, caplog: pytest.LogCaptureFixture
) -> None:
    throttled.warning("disk", "disk full")
    assert throttled.clear("disk")
    assert not throttled.clear("disk")
    throttled.warning("disk", "disk full again")
    assert caplog.messages == ["disk full", "disk full again"]


def test_all_conditions_can_be_over_at_once(
    throttled: ThrottledLog, caplog: pytest.LogCaptureFixture
) -> None:
    throttled.warning("disk", "disk full")
    throttled.clear_all()
    throttled.warning("disk", "disk full again")
    assert caplog.messages == ["disk full", "disk full again"]


def test_a_condition_that_lasts_is_logged_once_a_period_without_a_count(
    throttled: ThrottledLog, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        throttled.add("slaves", "no slave", count=0)
        time.now_s += PERIOD_S / 2
    assert caplog.messages == ["no slave", "no slave"]
