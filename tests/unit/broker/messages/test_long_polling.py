"""Waiting pulls and what wakes them."""

import asyncio

import pytest

from roquet.broker.messages.long_polling import LongPolls, QueueName
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock

QUEUE = QueueName("orders", 3)


class Puller:
    """A pull on a queue that is a counter of messages."""

    def __init__(self, queue: QueueName = QUEUE) -> None:
        self.message_count = 0
        self.look_count = 0
        self.answers: list[int | None] = []
        self.queues = (queue,)
        self.last_tick = 0

    def give_up(self) -> None:
        self.answers.append(None)

    def look(self) -> bool:
        self.look_count += 1
        if self.message_count:
            self.answers.append(self.message_count)
        return self.message_count > 0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def long_polls(clock: FakeClock) -> LongPolls:
    return LongPolls(clock)


def waiting_pull_count(long_polls: LongPolls) -> int:
    """Both ways to find a waiting pull know the same ones."""
    count = sum(map(len, long_polls._by_queue.values()))
    assert sum(map(len, long_polls._by_tick.values())) == count
    return count


async def test_a_message_that_came_before_the_registration_is_not_missed(
    long_polls: LongPolls,
) -> None:
    puller = Puller()
    puller.message_count = 1
    long_polls.wait(puller, 15)
    assert puller.answers == [1]
    assert waiting_pull_count(long_polls) == 0


async def test_messages_of_one_turn_wake_a_pull_once_with_all_of_them(
    long_polls: LongPolls,
) -> None:
    puller = Puller()
    long_polls.wait(puller, 15)
    for _ in range(3):
        puller.message_count += 1
        long_polls.announce("orders", 3)
    assert puller.answers == []
    await eventually(lambda: puller.answers)
    assert puller.answers == [3]
    assert waiting_pull_count(long_polls) == 0


async def test_only_pulls_of_the_queue_are_woken(long_polls: LongPolls) -> None:
    mine, other_queue, other_topic = (
        Puller(),
        Puller(QueueName("orders", 4)),
        Puller(QueueName("bills", 3)),
    )
    for puller in (mine, other_queue, other_topic):
        long_polls.wait(puller, 15)
        puller.message_count = 1
    long_polls.announce("orders", 3)
    await eventually(lambda: mine.answers)
    assert other_queue.answers == other_topic.answers == []


async def test_a_pull_whose_filter_does_not_match_sleeps_on(long_polls: LongPolls) -> None:
    puller = Puller()
    long_polls.wait(puller, 15)
    long_polls.announce("orders", 3)
    await eventually(lambda: puller.look_count == 2)
    assert waiting_pull_count(long_polls) == 1
    puller.message_count = 1
    long_polls.announce("orders", 3)
    await eventually(lambda: puller.answers)


async def test_what_is_not_on_disk_yet_wakes_no_pull_until_it_is(long_polls: LongPolls) -> None:
    puller = Puller()
    long_polls.wait(puller, 15)
    long_polls.announce_when_safe("orders", 3, 100)
    long_polls.announce_when_safe("orders", 3, 200)
    await asyncio.sleep(0)
    assert puller.look_count == 1
    long_polls.log_is_safe(100)
    await eventually(lambda: puller.look_count == 2)
    puller.message_count = 1
    long_polls.log_is_safe(200)
    await eventually(lambda: puller.answers)


async def test_a_queue_is_signalled_once_when_all_of_it_is_on_disk(long_polls: LongPolls) -> None:
    puller = Puller()
    long_polls.wait(puller, 15)
    long_polls.announce_when_safe("orders", 3, 100)
    long_polls.log_is_safe(100)
    await eventually(lambda: puller.look_count == 2)
    long_polls.log_is_safe(300)
    await asyncio.sleep(0)
    assert puller.look_count == 2


@pytest.mark.slow
async def test_a_pull_is_answered_when_its_time_is_over_and_not_before(
    long_polls: LongPolls, clock: FakeClock
) -> None:
    short, long = Puller(), Puller()
    long_polls.wait(short, 1)
    long_polls.wait(long, 15)
    clock.advance(0.9)
    await asyncio.sleep(0.25)  # more than two ticks of the real loop
    assert short.answers == []
    clock.advance(0.3)
    await eventually(lambda: short.answers)
    assert short.answers == [None]
    clock.advance(14)
    await eventually(lambda: long.answers)
    assert waiting_pull_count(long_polls) == 0


async def test_a_forgotten_pull_is_neither_woken_nor_answered(
    long_polls: LongPolls, clock: FakeClock
) -> None:
    gone, left = Puller(), Puller()
    long_polls.wait(gone, 1)
    long_polls.wait(left, 1)
    long_polls.forget(gone)
    gone.message_count = left.message_count = 1
    long_polls.announce("orders", 3)
    clock.advance(5)
    await eventually(lambda: left.answers)
    assert gone.answers == []


async def test_at_the_end_every_pull_is_answered_with_nothing(long_polls: LongPolls) -> None:
    waiting, late = Puller(), Puller()
    long_polls.wait(waiting, 15)
    long_polls.close()
    long_polls.wait(late, 15)
    assert waiting.answers == late.answers == [None]
    assert waiting_pull_count(long_polls) == 0


async def test_no_waiter_is_answered_twice_when_the_end_comes(
    long_polls: LongPolls, clock: FakeClock
) -> None:
    puller = Puller()
    long_polls.wait(puller, 1)
    puller.message_count = 1
    long_polls.announce("orders", 3)
    long_polls.close()
    clock.advance(5)
    await asyncio.sleep(0.25)  # more than two ticks of the real loop
    assert puller.answers == [None]
