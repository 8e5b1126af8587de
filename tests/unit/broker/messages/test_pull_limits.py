"""How much a pull may bring."""

from pathlib import Path

import pytest

from roquet.broker.errors import NotSubscribed
from roquet.broker.messages.subscriptions import limits_of_pull
from roquet.broker.settings.config import BrokerConfig
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import PullFlag
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.store.reading.queue_reading import QueueReadLimits
from tests.support.stores import small_config

CONFIG = BrokerConfig(store=small_config(Path("store")), bulk_pull_size_max=10_000)
USUAL_SIZE = CONFIG.store.read_size_max_in_memory


def limits(count_max: int = 32, size_max: int | None = None, flags: int = 4) -> QueueReadLimits:
    pull = PullMessageHeader(
        consumer_group="readers",
        topic="TopicA",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=count_max,
        sys_flag=flags,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
        max_msg_bytes=size_max,
    )
    return limits_of_pull(pull, None, GroupConfig(group_name="readers"), CONFIG)


@pytest.mark.parametrize("size_max", [None, 0, 262_144, 2**31 - 1])
def test_a_client_that_names_no_size_or_that_of_java_gets_what_is_usual(
    size_max: int | None,
) -> None:
    found = limits(size_max=size_max)
    assert (found.count_max, found.size_max, found.is_bulk) == (32, USUAL_SIZE, False)


def test_a_client_that_names_a_size_gets_as_much_up_to_the_limit() -> None:
    found = limits(count_max=1_000_000, size_max=1 << 20)
    assert (found.count_max, found.size_max, found.is_bulk) == (10_000 // 91, 10_000, True)


@pytest.mark.parametrize("count_max", [0, -1])
def test_a_pull_brings_one_message_at_least(count_max: int) -> None:
    assert limits(count_max).count_max == 1


def test_a_pull_without_a_subscription_needs_members_that_have_one() -> None:
    with pytest.raises(NotSubscribed):
        limits(flags=int(PullFlag.SUSPEND))
