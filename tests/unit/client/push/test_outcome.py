"""What follows from what a listener raised."""

import pytest

from roquet.client.errors import BadArgument
from roquet.client.push.outcome import Consequence, DeadLetter, RetryLater, TooSlow, consequence_of


@pytest.mark.parametrize(
    ("error", "consequence"),
    [
        (ValueError("x"), Consequence(0, 0)),
        (TooSlow(1.0), Consequence(0, 3)),
        (RetryLater(), Consequence(0, 0)),
        (RetryLater(delay_level=5, done_count=2), Consequence(2, 5)),
        (RetryLater(pause_s=0.5), Consequence(0, 0, 0.5)),
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
    [{"delay_level": 0}, {"delay_level": -1}, {"pause_s": -0.1}, {"done_count": -1}],
    ids=str,
)
def test_what_nobody_can_do_is_refused(asked: dict[str, int]) -> None:
    with pytest.raises(BadArgument):
        RetryLater(**asked)
