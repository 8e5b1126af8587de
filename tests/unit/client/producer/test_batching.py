"""Messages that share a request: which parts they make, and when they leave."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from roquet.client.errors import NotYetSafe, SendFailed, SendUnknown
from roquet.client.producer.batching import (
    GATHERED_SIZE_MAX,
    Batcher,
    cut_to_size,
    size_of,
)
from roquet.client.producer.outgoing import GATHERED_COUNT_MAX, Ready
from roquet.client.producer.queue_choice import ANYWHERE, Target
from roquet.client.producer.receipt import SendReceipt
from roquet.client.queue_ref import QueueRef
from roquet.net.service import Services
from roquet.protocol.messages.message import Message
from tests.support.eventually import eventually
from tests.support.raising import raises

QUEUE = QueueRef("t", "a", 0)
NEVER_S = 3600.0


def ready(number: int = 0, *, topic: str = "t", size: int = 1) -> Ready:
    return Ready(Message(topic, bytes(size)), str(number), "")


def receipts(batch: Sequence[Ready]) -> list[SendReceipt]:
    return [SendReceipt(each.message_id, QUEUE, 0, "") for each in batch]


class Line:
    """Takes requests, and answers them when the test asks for it."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.deadlines: list[float] = []
        self.may_answer = asyncio.Event()
        self.error: Exception | None = None

    async def send(
        self, batch: Sequence[Ready], _target: Target, deadline_s: float
    ) -> list[SendReceipt]:
        self.sent.append([each.message_id for each in batch])
        self.deadlines.append(deadline_s)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return receipts(batch)


@pytest.fixture
async def line() -> Line:
    return Line()


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with Services("test") as services:
        yield services


def new_batcher(line: Line, services: Services, linger_s: float = NEVER_S) -> Batcher:
    return Batcher(line.send, services, linger_s, 1 << 30)


def test_messages_are_cut_where_they_do_not_fit_any_more() -> None:
    batch = [ready(number, size=100) for number in range(5)]
    size = size_of(batch[0])
    assert [len(part) for part in cut_to_size(batch, 2 * size)] == [2, 2, 1]
    assert [len(part) for part in cut_to_size(batch, 2 * size - 1)] == [1] * 5
    assert [len(part) for part in cut_to_size(batch, 5 * size)] == [5]


async def test_messages_leave_together_when_they_have_waited(
    line: Line, services: Services
) -> None:
    batcher = new_batcher(line, services, 0.01)
    outcomes = [batcher.add(ready(number), ANYWHERE, 10.0 - number) for number in range(3)]
    assert not line.sent
    line.may_answer.set()
    assert [(await outcome).message_id for outcome in outcomes] == ["0", "1", "2"]
    assert line.sent == [["0", "1", "2"]]
    # The shortest time of all, from when they left.
    (deadline_s,) = line.deadlines
    assert 7.0 < deadline_s - asyncio.get_running_loop().time() <= 8.0


async def test_a_full_request_leaves_at_once(line: Line, services: Services) -> None:
    batcher = new_batcher(line, services)
    for number in range(GATHERED_COUNT_MAX + 1):
        batcher.add(ready(number), ANYWHERE, 0)
    await eventually(lambda: line.sent)
    assert [len(each) for each in line.sent] == [GATHERED_COUNT_MAX]
    batcher.add(ready(size=GATHERED_SIZE_MAX), ANYWHERE, 0)
    await eventually(lambda: len(line.sent) == 2)
    assert line.sent[1] == [str(GATHERED_COUNT_MAX)]
    line.may_answer.set()


async def test_topics_and_places_do_not_mix(line: Line, services: Services) -> None:
    batcher = new_batcher(line, services)
    batcher.add(ready(1), ANYWHERE, 0)
    batcher.add(ready(2, topic="u"), ANYWHERE, 0)
    batcher.add(ready(3), Target(QUEUE), 0)
    batcher.flush()
    await eventually(lambda: len(line.sent) == 3)
    assert sorted(line.sent) == [["1"], ["2"], ["3"]]
    line.may_answer.set()


async def test_requests_to_one_queue_do_not_overtake_each_other(
    line: Line, services: Services
) -> None:
    batcher = new_batcher(line, services)
    for number in range(2):
        last = batcher.add(ready(number), Target(QUEUE), 0)
        batcher.flush()
    await eventually(lambda: line.sent)
    await asyncio.sleep(0)
    assert line.sent == [["0"]]
    line.may_answer.set()
    await last
    assert line.sent == [["0"], ["1"]]


async def test_every_message_learns_of_a_failure(line: Line, services: Services) -> None:
    batcher = new_batcher(line, services)
    line.error = SendFailed("t", "no")
    outcomes = [batcher.add(ready(number), ANYWHERE, 0) for number in range(2)]
    batcher.flush()
    line.may_answer.set()
    for outcome in outcomes:
        with raises(SendFailed, topic="t", reason="no"):
            await outcome


async def test_every_message_learns_where_it_is_not_safe_yet(
    line: Line, services: Services
) -> None:
    batcher = new_batcher(line, services)
    line.error = NotYetSafe("t", "slow disk", receipts([ready(0), ready(1)]))
    outcomes = [batcher.add(ready(number), ANYWHERE, 0) for number in range(2)]
    batcher.flush()
    line.may_answer.set()
    for number, outcome in enumerate(outcomes):
        with pytest.raises(NotYetSafe) as failure:
            await outcome
        assert [each.message_id for each in failure.value.receipts] == [str(number)]


async def test_waiters_are_answered_when_everything_ends(line: Line) -> None:
    async with Services("test") as services:
        batcher = new_batcher(line, services)
        outcome = batcher.add(ready(), ANYWHERE, 0)
        batcher.flush()
        await eventually(lambda: line.sent)
    with pytest.raises(SendUnknown, match="closed meanwhile"):
        await outcome


async def test_a_cancelled_waiter_is_not_notified(line: Line, services: Services) -> None:
    batcher = new_batcher(line, services)
    outcomes = [batcher.add(ready(number), ANYWHERE, 0) for number in range(2)]
    batcher.flush()
    outcomes[0].cancel()
    line.may_answer.set()
    assert (await outcomes[1]).message_id == "1"
