"""Messages that a stream still needed and that are gone."""

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.source.queue_states import QueueState, find_loss

QUEUE = QueueRef("orders", "broker-a", 0)
SEEN_FIRST, SEEN_BORN_MS = 10, 1_700_000_000_000


@pytest.mark.parametrize(
    ("position", "now"),
    [
        (50, QueueState(10, 90, SEEN_BORN_MS)),
        (50, QueueState(50, 90, SEEN_BORN_MS + 5000)),  # older ones expired, none that is needed
        (50, QueueState(10, 50, SEEN_BORN_MS)),
        (50, QueueState(10, 90, None)),  # a broker that does not say
    ],
)
def test_what_is_still_there_is_no_loss(position: int, now: QueueState) -> None:
    assert find_loss(QUEUE, position, SEEN_FIRST, SEEN_BORN_MS, now) is None


@pytest.mark.parametrize(
    ("position", "now", "says", "resume"),
    [
        (50, QueueState(60, 90, SEEN_BORN_MS + 5000), "expired", 60),
        (50, QueueState(0, 20, SEEN_BORN_MS), "its broker lost messages", 0),
        # With more messages than the old one had: only its age tells.
        (50, QueueState(0, 90, SEEN_BORN_MS + 5000), "deleted and created again", 0),
    ],
)
def test_a_loss_is_found_and_says_where_to_go_on(
    position: int, now: QueueState, says: str, resume: int
) -> None:
    loss = find_loss(QUEUE, position, SEEN_FIRST, SEEN_BORN_MS, now)
    assert loss is not None
    assert says in loss.reason
    assert loss.resume == resume
