"""What makes a broker wait."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roquet.client.errors import BadArgument
from roquet.client.producer.outgoing import Delay, delay_properties

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("delay", "properties"),
    [
        (timedelta(seconds=1.5), {"TIMER_DELAY_MS": "1500"}),
        (NOW + timedelta(days=3), {"TIMER_DELIVER_MS": str(NOW_MS + 3 * 86_400_000)}),
        (timedelta(0), {}),
        (NOW, {}),
        (NOW - timedelta(days=1), {}),
    ],
)
def test_a_delay_is_a_time_or_a_moment_or_over_already(
    delay: Delay, properties: dict[str, str]
) -> None:
    assert delay_properties(delay, None, NOW_MS) == properties


@pytest.mark.parametrize("level", [1, 18])
def test_a_level_has_a_name_of_its_own(level: int) -> None:
    assert delay_properties(None, level, NOW_MS) == {"DELAY": str(level)}


@pytest.mark.parametrize(
    ("delay", "level", "expected"),
    [
        (5, None, "timedelta(seconds=5), for a level of the broker delay_level=5"),
        (1.5, None, "a timedelta or a datetime, not 1.5: for seconds give timedelta(seconds=1.5)"),
        ("1s", None, "`delay` has to be a timedelta or a datetime, not '1s'"),
        (True, None, "`delay` has to be a timedelta or a datetime, not True"),
        (NOW.replace(tzinfo=None), None, "`delay` 2026-01-01 00:00:00 has no time zone"),
        (None, 0, "`delay_level` has to be a whole number, 1 or more, not 0"),
        (None, 1.5, "`delay_level` has to be a whole number"),
        (timedelta(1), 1, "give `delay` or `delay_level`, not both"),
    ],
)
def test_what_is_no_delay_is_refused_and_says_what_to_write(
    delay: Any, level: Any, expected: str
) -> None:
    with pytest.raises(BadArgument) as refused:
        delay_properties(delay, level, NOW_MS)
    assert expected in str(refused.value)
