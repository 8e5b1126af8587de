"""What makes a broker wait."""

from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.errors import BadArgument
from roquet.client.producer.delay import Delay, delay_properties

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("delay", "properties"),
    [
        (1, {"DELAY": "1"}),
        (18, {"DELAY": "18"}),
        (timedelta(seconds=1.5), {"TIMER_DELAY_MS": "1500"}),
        (NOW + timedelta(days=3), {"TIMER_DELIVER_MS": str(NOW_MS + 3 * 86_400_000)}),
        (timedelta(0), {}),
        (NOW, {}),
        (NOW - timedelta(days=1), {}),
    ],
)
def test_a_delay_is_a_level_or_a_moment_or_over_already(
    delay: Delay, properties: dict[str, str]
) -> None:
    assert delay_properties(delay, NOW_MS) == properties


@pytest.mark.parametrize("delay", [0, -1, NOW.replace(tzinfo=None)])
def test_what_is_no_delay_is_refused(delay: Delay) -> None:
    with pytest.raises(BadArgument):
        delay_properties(delay, NOW_MS)
