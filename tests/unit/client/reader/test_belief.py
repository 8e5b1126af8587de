"""What replies teach about those to come."""

from roquet.client.reader.belief import (
    PULL_COUNT_MAX,
    PULL_SIZE_MAX,
    AdvanceBelief,
    CountBelief,
)

SMALL = 300


def test_a_short_reply_says_how_many_a_broker_gives() -> None:
    belief = CountBelief()
    assert belief.span_count == PULL_COUNT_MAX
    belief.note(PULL_COUNT_MAX, 32, 32 * SMALL)
    assert belief.span_count == 32
    belief.note(32, 8, 8 * SMALL)
    assert belief.span_count == 8


def test_a_reply_that_its_size_ended_leaves_room_for_larger_messages() -> None:
    """Else every other pull would miss its last few messages, and cost one more."""
    belief = CountBelief()
    belief.note(PULL_COUNT_MAX, 1000, PULL_SIZE_MAX - 100)
    assert belief.span_count == 875


def test_a_large_message_is_still_asked_for() -> None:
    belief = CountBelief()
    belief.note(32, 1, 4_000_000)
    assert belief.span_count == 1


def test_full_replies_lead_to_larger_ones_as_long_as_they_are_small() -> None:
    belief = CountBelief()
    belief.note(32, 8, 8 * SMALL)
    for _ in range(8):
        belief.note(8, 8, 8 * SMALL)
    assert belief.span_count == 16
    for _ in range(100):
        belief.note(16, 16, PULL_SIZE_MAX)
    assert belief.span_count == 16
    for _ in range(100):
        belief.note(belief.span_count, belief.span_count, 0)
    assert belief.span_count == PULL_COUNT_MAX


def test_spans_of_a_filter_take_several_pulls() -> None:
    belief = AdvanceBelief()
    belief.note(PULL_COUNT_MAX, 800, 0)
    assert belief.span_count == 6400
    for _ in range(30):
        belief.note(PULL_COUNT_MAX, 40, 32 * SMALL)
    assert 300 < belief.span_count < 400
