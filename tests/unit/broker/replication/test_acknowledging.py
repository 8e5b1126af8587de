"""How many brokers must have a message."""

import pytest

from roquet.broker.replication.acknowledging import AckPolicy, AckRule, end_with_copies


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        (AckPolicy.ASYNC, [1, 1, 1, 1, 1]),
        (AckPolicy.ONE, [2, 2, 2, 2, 2]),
        (AckPolicy.QUORUM, [1, 2, 2, 3, 3]),
    ],
)
def test_a_policy_says_how_many_have_it(policy: AckPolicy, counts: list[int]) -> None:
    assert [AckRule(policy, count).copies_needed for count in range(1, 6)] == counts


@pytest.mark.parametrize(("needed", "end"), [(1, 90), (2, 70), (3, 50), (4, 0)])
def test_as_many_slaves_have_the_log_up_to_there(needed: int, end: int) -> None:
    assert end_with_copies([70, 90, 50], needed) == end
