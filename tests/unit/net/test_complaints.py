"""Who is complained about again and again is counted."""

import pytest

from roquet.net.complaints import PERIOD_S, Complaints


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


def test_the_first_is_said_at_once_and_the_rest_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints()
    for number in range(4):
        complaints.say("bad frame", f"closing peer {number}: bad frame", 0)
    assert said(caplog) == ["closing peer 0: bad frame"]
    complaints.sum_up(PERIOD_S - 1)
    assert said(caplog) == []
    complaints.sum_up(PERIOD_S)
    assert said(caplog) == ["3 more times, the last: closing peer 3: bad frame"]


def test_kinds_are_counted_apart(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    complaints.say("one", "about one", 0)
    complaints.say("other", "about the other", 0)
    assert said(caplog) == ["about one", "about the other"]


def test_while_it_goes_on_there_is_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    for second in range(1 + 3 * int(PERIOD_S)):
        complaints.sum_up(second)
        complaints.say("one", "about one", second)
    assert len(said(caplog)) == 4


def test_after_a_quiet_minute_the_next_is_the_first_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints()
    complaints.say("one", "about one", 0)
    complaints.sum_up(PERIOD_S)
    complaints.say("one", "about one", PERIOD_S)
    assert said(caplog) == ["about one", "about one"]
