"""Where slaves and readers go on."""

import pytest

from roquet.broker.replication.decisions import first_position, suggested_broker
from roquet.broker.replication.errors import SlaveAhead, SlaveBehind
from roquet.protocol.bodies.group_config import GroupConfig


@pytest.mark.parametrize(
    ("reported", "position"),
    [(0, 4096), (4096, 4096), (5000, 5000), (9000, 9000)],
    ids=["has nothing", "has all that expired", "in between", "has everything"],
)
def test_a_slave_goes_on_where_it_is(reported: int, position: int) -> None:
    assert first_position(reported, 4096, 9000) == position


def test_a_slave_that_has_more_than_its_master_is_told_what_to_do() -> None:
    with pytest.raises(SlaveAhead, match=r"ends at 9001, the master's at 9000.*store directory"):
        first_position(9001, 4096, 9000)


def test_a_slave_that_was_away_for_too_long_is_told_what_to_do() -> None:
    with pytest.raises(SlaveBehind, match=r"begins at 4096.*store directory"):
        first_position(4095, 4096, 9000)


def test_a_group_is_sent_to_the_brokers_that_it_names() -> None:
    group = GroupConfig(group_name="group", broker_id=2, which_broker_when_consume_slowly=3)
    assert suggested_broker(group, is_behind=False) == 2
    assert suggested_broker(group, is_behind=True) == 3
    assert suggested_broker(None, is_behind=True) == 0
