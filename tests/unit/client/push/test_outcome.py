"""What follows from what a listener raised."""

from datetime import timedelta
from typing import Any

import pytest

from roquet.client.errors import BadArgument
from roquet.client.push.outcome import (
    LEVELS_S,
    Consequence,
    DeadLetter,
    RetryLater,
    TooSlow,
    consequence_of,
    level_for,
)
from roquet.store.config import DELAY_LEVELS_MS


@pytest.mark.parametrize(
    ("error", "consequence"),
    [
        (ValueError("x"), Consequence(0, 0)),
        (TooSlow(1.0), Consequence(0, 3)),
        (RetryLater(), Consequence(0, 0)),
        (RetryLater(delay_level=5, done_count=2), Consequence(2, 5)),
        (RetryLater(timedelta(seconds=0.5)), Consequence(0, 1, 0.5)),
        (RetryLater(done_count=9), Consequence(4, 0)),
        (DeadLetter("no use", done_count=1), Consequence(1, -1)),
    ],
    ids=repr,
)
def test_what_follows_from_an_error(error: Exception, consequence: Consequence) -> None:
    assert consequence_of(error, 4) == consequence
    assert consequence.is_dead is isinstance(error, DeadLetter)


@pytest.mark.parametrize(
    "asked",
    [
        {"delay_level": 0},
        {"delay_level": -1},
        {"delay": timedelta(-1)},
        {"delay": timedelta(hours=3)},
        {"delay": 30},
        {"delay": timedelta(1), "delay_level": 1},
        {"done_count": -1},
    ],
    ids=str,
)
def test_the_impossible_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(BadArgument):
        RetryLater(**asked)


def test_the_default_levels_are_those_of_an_unconfigured_broker() -> None:
    assert [1000 * seconds for seconds in LEVELS_S] == list(DELAY_LEVELS_MS)


@pytest.mark.parametrize(
    ("seconds", "level"),
    [(0, 1), (1, 1), (1.1, 2), (5, 2), (10, 3), (30, 4), (31, 5), (3601, 18), (7200, 18)],
)
def test_a_delay_is_rounded_up_to_a_level(seconds: float, level: int) -> None:
    assert level_for(timedelta(seconds=seconds)) == level
