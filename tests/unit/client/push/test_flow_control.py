"""When a consumer has enough of a queue."""

from types import SimpleNamespace

import pytest

from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.flow_control import QueueLimits, has_room, limits_of
from roquet.client.push.offset_book import OffsetBook


def config(**options: object) -> PushConsumerConfig:
    return PushConsumerConfig(name_server="127.0.0.1:1", group="g", **options)  # type: ignore[arg-type]


def test_each_queue_has_limits_of_its_own() -> None:
    assert limits_of(config(), 8) == QueueLimits(1000, 100 * 2**20, 2000)


def test_queues_share_the_limits_of_their_topic() -> None:
    shared = config(topic_count_max=100, topic_size_max=10)
    assert limits_of(shared, 0) == QueueLimits(100, 10, 2000)
    assert limits_of(shared, 8) == QueueLimits(12, 1, 2000)
    assert limits_of(shared, 1000) == QueueLimits(1, 1, 2000)


def test_in_order_the_distance_does_not_matter() -> None:
    assert limits_of(config(orderly=True), 1).span_max is None


@pytest.mark.parametrize(
    ("limits", "is_enough"),
    [
        (QueueLimits(3, 30, 20), False),
        (QueueLimits(2, 30, 20), True),
        (QueueLimits(3, 29, 20), True),
        (QueueLimits(3, 30, 19), True),
        (QueueLimits(3, 30, None), False),
    ],
)
def test_one_limit_is_enough(limits: QueueLimits, is_enough: bool) -> None:
    book = OffsetBook(0)
    for offset in (5, 6, 25):
        book.add_all([SimpleNamespace(queue_offset=offset, size=10)])
    assert has_room(book, limits) is not is_enough
