"""What replies teach about those to come."""

from roquet.client.reader.fetch_sizing import (
    PULL_COUNT_MAX,
    PULL_SIZE_MAX,
    FetchSizeEstimate,
    FilteredFetchEstimate,
)

SMALL = 300


def test_a_short_reply_says_how_many_a_broker_gives() -> None:
    estimate = FetchSizeEstimate()
    assert estimate.span_count == PULL_COUNT_MAX
    estimate.note(PULL_COUNT_MAX, 32, 32 * SMALL)
    assert estimate.span_count == 32
    estimate.note(32, 8, 8 * SMALL)
    assert estimate.span_count == 8


def test_a_reply_that_its_size_ended_leaves_room_for_larger_messages() -> None:
    """Else every other pull would miss its last few messages, and cost one more."""
    estimate = FetchSizeEstimate()
    estimate.note(PULL_COUNT_MAX, 1000, PULL_SIZE_MAX - 100)
    assert estimate.span_count == 875


def test_a_large_message_is_still_asked_for() -> None:
    estimate = FetchSizeEstimate()
    estimate.note(32, 1, 4_000_000)
    assert estimate.span_count == 1


def test_full_replies_lead_to_larger_ones_as_long_as_they_are_small() -> None:
    estimate = FetchSizeEstimate()
    estimate.note(32, 8, 8 * SMALL)
    for _ in range(8):
        estimate.note(8, 8, 8 * SMALL)
    assert estimate.span_count == 16
    for _ in range(100):
        estimate.note(16, 16, PULL_SIZE_MAX)
    assert estimate.span_count == 16
    for _ in range(100):
        estimate.note(estimate.span_count, estimate.span_count, 0)
    assert estimate.span_count == PULL_COUNT_MAX


def test_spans_of_a_filter_take_several_pulls() -> None:
    estimate = FilteredFetchEstimate()
    estimate.note(PULL_COUNT_MAX, 800, 0)
    assert estimate.span_count == 6400
    for _ in range(30):
        estimate.note(PULL_COUNT_MAX, 40, 32 * SMALL)
    assert 300 < estimate.span_count < 400
