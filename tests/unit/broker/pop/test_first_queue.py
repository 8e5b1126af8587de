import random

from roquet.broker.pop.first_queue import FirstQueue, first_of, is_retry_first


def test_what_is_drawn_was_known_before() -> None:
    first_queue = FirstQueue()
    for _ in range(10):
        known = first_queue.number
        assert first_queue.draw() == known


def test_every_queue_is_first_now_and_then() -> None:
    random.seed(7)
    first_queue = FirstQueue()
    assert {first_of(first_queue.draw(), 8) for _ in range(200)} == set(range(8))


def test_as_many_pops_start_with_retries_as_are_wanted() -> None:
    numbers = range(1_000)
    assert sum(is_retry_first(number, 20) for number in numbers) == 200
    assert not any(is_retry_first(number, 0) for number in numbers)


def test_whether_retries_are_first_says_nothing_about_the_queue() -> None:
    numbers = range(10_000)
    queues = [first_of(number, 4) for number in numbers if is_retry_first(number, 20)]
    assert {queues.count(queue_id) for queue_id in range(4)} == {500}
