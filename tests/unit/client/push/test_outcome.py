"""What follows from what a listener raised."""

import pytest

from roquet.client.errors import BadArgument
from roquet.client.push.outcome import DeadLetter, RetryLater, TooSlow, Verdict, verdict_of


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ValueError("x"), Verdict(0, 0)),
        (TooSlow(1.0), Verdict(0, 3)),
        (RetryLater(), Verdict(0, 0)),
        (RetryLater(delay_level=5, done_count=2), Verdict(2, 5)),
        (RetryLater(pause_s=0.5), Verdict(0, 0, 0.5)),
        (RetryLater(done_count=9), Verdict(4, 0)),
        (DeadLetter("no use", done_count=1), Verdict(1, -1)),
    ],
    ids=repr,
)
def test_what_follows_from_an_error(error: Exception, verdict: Verdict) -> None:
    assert verdict_of(error, 4) == verdict
    assert verdict.is_dead is isinstance(error, DeadLetter)


@pytest.mark.parametrize(
    "asked",
    [{"delay_level": 0}, {"delay_level": -1}, {"pause_s": -0.1}, {"done_count": -1}],
    ids=str,
)
def test_what_nobody_can_do_is_refused(asked: dict[str, int]) -> None:
    with pytest.raises(BadArgument):
        RetryLater(**asked)
