"""What a reply says about the range that is read."""

import pytest

from roquet.client.cluster.pulling import PulledRecords, PullStatus
from roquet.client.reader.retrying_puller import PullOutcome, after_gap, outcome_of_pull

GOES_ON, GONE, NOT_NOW = PullOutcome.GOES_ON, PullOutcome.GONE, PullOutcome.NOT_NOW


def reply(
    status: PullStatus, next_offset: int, bounds: tuple[int, int], *, is_newest: bool = True
) -> PulledRecords:
    return PulledRecords(status, b"", next_offset, *bounds, is_newest)


@pytest.mark.parametrize(
    ("status", "next_offset", "bounds", "of_master", "of_slave"),
    [
        (PullStatus.FOUND, 12, (0, 20), GOES_ON, GOES_ON),
        (PullStatus.FOUND, 10, (0, 20), NOT_NOW, NOT_NOW),
        # Removed while it was looked for; without a filter nothing else can be meant.
        (PullStatus.NOTHING_MATCHED, 12, (0, 20), GONE, GONE),
        (PullStatus.NOTHING_MATCHED, 10, (0, 20), NOT_NOW, NOT_NOW),
        (PullStatus.NOTHING_NEW, 10, (0, 10), GONE, NOT_NOW),
        (PullStatus.NOTHING_NEW, 15, (0, 20), GONE, NOT_NOW),
        (PullStatus.NOTHING_NEW, 10, (0, 20), NOT_NOW, NOT_NOW),
        (PullStatus.OUT_OF_RANGE, 15, (15, 20), GONE, NOT_NOW),
        (PullStatus.OUT_OF_RANGE, 5, (0, 5), GONE, NOT_NOW),
        # An operator sends the group elsewhere, and no other.
        (PullStatus.OUT_OF_RANGE, 3, (0, 20), NOT_NOW, NOT_NOW),
    ],
)
def test_a_reply_continues_or_says_that_offsets_are_gone_or_is_to_be_had_later(
    status: PullStatus,
    next_offset: int,
    bounds: tuple[int, int],
    of_master: PullOutcome,
    of_slave: PullOutcome,
) -> None:
    assert outcome_of_pull(reply(status, next_offset, bounds), 10, is_filtered=False) is of_master
    slave = reply(status, next_offset, bounds, is_newest=False)
    assert outcome_of_pull(slave, 10, is_filtered=False) is of_slave


def test_a_filter_may_match_nothing() -> None:
    found = reply(PullStatus.NOTHING_MATCHED, 12, (0, 20))
    assert outcome_of_pull(found, 10, is_filtered=True) is GOES_ON


@pytest.mark.parametrize(
    ("next_offset", "bounds", "behind"),
    [(15, (15, 30), 15), (25, (25, 30), 20), (12, (0, 30), 12), (5, (0, 5), 20)],
)
def test_reading_continues_after_a_gap(
    next_offset: int, bounds: tuple[int, int], behind: int
) -> None:
    assert after_gap(reply(PullStatus.OUT_OF_RANGE, next_offset, bounds), 10, 20) == behind
