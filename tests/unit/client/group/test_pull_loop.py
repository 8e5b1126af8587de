"""What follows from a pull, whoever pulls."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from roquet.client.cluster.pulling import Pulled, PullOrder, PullStatus, PullTerms
from roquet.client.errors import ClientError, NoNameServer, RequestRefused, Unreachable
from roquet.client.group.pull_loop import PullContext, PullLoop, Recovery, has_progress, recovery_of
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.service import Services
from roquet.protocol.codes import ResponseCode
from roquet.protocol.subscription import Subscription, parse_subscription
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock

QUEUE = QueueRef("orders", "broker-a", 0)
START = 10
UNFINISHED = 5
LONG_S = 3600.0

Answer = Pulled | ClientError


def refused(code: int) -> RequestRefused:
    return RequestRefused("127.0.0.1:1", code, "not today")


def pulled(status: PullStatus, next_offset: int) -> Pulled:
    return Pulled(status, [], next_offset, 0, 100)


class Ledger:
    """An intake that records its calls."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, int]] = []

    def start_at(self, offset: int) -> None:
        self.entries.append(("start", offset))

    async def restart_at(self, offset: int) -> None:
        self.entries.append(("restart", offset))

    @property
    def unfinished_offset(self) -> int:
        return UNFINISHED

    async def until_room(self) -> None:
        await asyncio.sleep(0)

    def order(self, subscription: Subscription, offset: int) -> PullOrder:
        return PullOrder(QUEUE, PullTerms(subscription, 32), offset)

    async def take_in(self, pulled: Pulled, duration_s: float) -> None:
        assert duration_s >= 0
        self.entries.append(("take in", pulled.next_offset))


class Script:
    """Answers one pull after the other; the one behind the last waits for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[int] = []

    async def __call__(self, order: PullOrder) -> Pulled:
        self.asked.append(order.offset)
        if not self._answers:
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, ClientError):
            raise answer
        return answer


class Reader:
    """A loop with everything around it."""

    def __init__(
        self,
        services: Services,
        script: Script,
        starts: Sequence[int | ClientError],
        **options: Any,
    ) -> None:
        self.ledger = Ledger()
        self.script = script
        self.errors: list[str] = []
        self.renewed: list[str] = []
        self.registered: list[None] = []
        known: dict[str, Any] = {
            "clock": SystemClock(),
            "error_pause_s": 0.001,
            "subscription_of": lambda topic: parse_subscription(topic, "*"),
        }
        context = PullContext(
            pull=script,
            renew_route=self.renewed.append,
            services=services,
            register=lambda: self.registered.append(None),
            note_error=self.errors.append,
            **(known | options),
        )
        self._starts = [*starts]
        self.loop = PullLoop(QUEUE, context, self.ledger, self._start_offset)
        self.loop.start()

    async def has_asked(self, count: int) -> None:
        await eventually(lambda: len(self.script.asked) == count)

    async def _start_offset(self) -> int:
        start = self._starts.pop(0)
        if isinstance(start, ClientError):
            raise start
        return start


New = Callable[..., Reader]


@pytest.fixture
async def new_reader() -> AsyncIterator[New]:
    async with Services("test") as services:

        def new(
            *answers: Answer, starts: Sequence[int | ClientError] = (START,), **options: Any
        ) -> Reader:
            return Reader(services, Script(*answers), starts, **options)

        yield new


@pytest.mark.parametrize(
    ("error", "recovery"),
    [
        (Unreachable("broker-a", "gone"), Recovery(renews_route=True)),
        (refused(ResponseCode.TOPIC_NOT_EXIST), Recovery(renews_route=True)),
        (refused(ResponseCode.NO_PERMISSION), Recovery(renews_route=True)),
        (refused(ResponseCode.SUBSCRIPTION_NOT_EXIST), Recovery(registers=True)),
        (refused(ResponseCode.SUBSCRIPTION_NOT_LATEST), Recovery(registers=True)),
        (refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST), Recovery(registers=True)),
        (refused(ResponseCode.FILTER_DATA_NOT_EXIST), Recovery(registers=True)),
        (refused(ResponseCode.FILTER_DATA_NOT_LATEST), Recovery(registers=True)),
        (refused(ResponseCode.FLOW_CONTROL), Recovery(pause_s=0.02)),
        (refused(ResponseCode.SYSTEM_ERROR), Recovery()),
        (NoNameServer("none"), Recovery()),
    ],
    ids=str,
)
def test_each_error_has_its_recovery(error: ClientError, recovery: Recovery) -> None:
    assert recovery_of(error) == recovery


@pytest.mark.parametrize(
    ("status", "next_offset", "expected"),
    [
        (PullStatus.FOUND, 11, True),
        (PullStatus.FOUND, 10, False),
        (PullStatus.NOTHING_NEW, 10, True),  # The broker has waited.
        (PullStatus.NOTHING_MATCHED, 10, False),
        (PullStatus.OUT_OF_RANGE, 10, False),
        (PullStatus.OUT_OF_RANGE, 3, True),
    ],
)
def test_a_pull_that_would_be_repeated_at_once_is_no_progress(
    status: PullStatus, next_offset: int, expected: bool
) -> None:
    assert has_progress(pulled(status, next_offset), 10) is expected


async def test_it_starts_when_it_is_known_where_and_continues_after(new_reader: New) -> None:
    reader = new_reader(
        pulled(PullStatus.FOUND, 12),
        pulled(PullStatus.NOTHING_NEW, 12),
        pulled(PullStatus.NOTHING_MATCHED, 20),
        starts=[Unreachable("broker-a", "not yet"), START],
    )
    await reader.has_asked(4)
    assert reader.script.asked == [START, 12, 12, 20]
    assert reader.ledger.entries == [
        ("start", START),
        ("take in", 12),
        ("take in", 12),
        ("take in", 20),
    ]
    assert "start offset" in reader.errors[0]
    assert reader.loop.max_offset == 100
    assert reader.loop.pulled_s is not None


async def test_messages_that_expired_cost_nothing_that_is_here(new_reader: New) -> None:
    reader = new_reader(pulled(PullStatus.OUT_OF_RANGE, 50))
    await reader.has_asked(2)
    assert reader.script.asked == [START, 50]
    assert reader.ledger.entries == [("start", START), ("take in", 50)]


async def test_an_operator_may_move_it_beyond_what_is_in_hand(new_reader: New) -> None:
    reader = new_reader(pulled(PullStatus.OUT_OF_RANGE, UNFINISHED + 2))
    await reader.has_asked(2)
    assert reader.ledger.entries == [("start", START), ("restart", UNFINISHED + 2)]


async def test_a_queue_that_ends_before_is_read_again_from_there(new_reader: New) -> None:
    reader = new_reader(pulled(PullStatus.OUT_OF_RANGE, 3))
    await reader.has_asked(2)
    assert reader.script.asked == [START, 3]
    assert reader.ledger.entries == [("start", START), ("restart", 3)]


async def test_a_queue_that_ends_before_loses_nothing_that_is_in_hand(new_reader: New) -> None:
    ends_at = UNFINISHED + 2
    reader = new_reader(Pulled(PullStatus.OUT_OF_RANGE, [], ends_at, 0, ends_at))
    await reader.has_asked(2)
    assert reader.ledger.entries == [("start", START), ("restart", UNFINISHED)]


@pytest.mark.parametrize(
    "status", [PullStatus.FOUND, PullStatus.NOTHING_MATCHED, PullStatus.OUT_OF_RANGE]
)
async def test_without_progress_the_broker_is_left_alone_for_a_while(
    new_reader: New, status: PullStatus
) -> None:
    reader = new_reader(pulled(status, START), error_pause_s=0.2)
    await reader.has_asked(1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert reader.script.asked == [START]
    await reader.has_asked(2)


async def test_errors_are_recovered_from_and_logged_once(
    new_reader: New, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        reader = new_reader(
            Unreachable("broker-a", "gone"),
            refused(ResponseCode.SUBSCRIPTION_NOT_EXIST),
            refused(ResponseCode.FLOW_CONTROL),
            pulled(PullStatus.FOUND, 12),
        )
        await reader.has_asked(5)
    assert reader.script.asked == [START] * 4 + [12]
    assert reader.renewed == [QUEUE.topic]
    assert reader.registered == [None]
    assert len(reader.errors) == 3
    assert len(caplog.records) == 1


async def test_flow_control_is_over_sooner_than_an_error(new_reader: New) -> None:
    reader = new_reader(refused(ResponseCode.FLOW_CONTROL), error_pause_s=LONG_S)
    await reader.has_asked(2)


async def test_filtered_messages_are_not_pulled(new_reader: New) -> None:
    reader = new_reader(subscription_of=lambda _topic: None)
    await eventually(lambda: any("subscription" in each for each in reader.errors))
    assert reader.script.asked == []


async def test_a_pull_that_neither_ends_nor_fails_is_stuck_after_a_while(new_reader: New) -> None:
    clock = FakeClock()
    reader = new_reader(pulled(PullStatus.FOUND, 12), clock=clock)
    await reader.has_asked(2)
    clock.advance(120)
    assert not reader.loop.is_stuck(120)
    clock.advance(1)
    assert reader.loop.is_stuck(120)
    reader.loop.restart(4)
    assert not reader.loop.is_stuck(120)


async def test_a_loop_that_rests_is_not_stuck(new_reader: New) -> None:
    clock = FakeClock()
    reader = new_reader(refused(ResponseCode.SYSTEM_ERROR), clock=clock, error_pause_s=LONG_S)
    await eventually(lambda: reader.errors)
    clock.advance(LONG_S)
    assert not reader.loop.is_stuck(120)


async def test_a_restart_continues_elsewhere(new_reader: New) -> None:
    reader = new_reader(pulled(PullStatus.FOUND, 12))
    await reader.has_asked(2)
    reader.loop.restart(4)
    await reader.has_asked(3)
    assert reader.script.asked == [START, 12, 4]
    assert reader.ledger.entries[-1] == ("restart", 4)
    reader.loop.stop()


@pytest.mark.parametrize(
    ("offset", "next_offset", "level", "printed"),
    [
        (25, 25, logging.INFO, "an operator moved the group from 25 to 25"),
        (25, 3, logging.INFO, "an operator moved the group from 25 to 3"),
        (200, 100, logging.WARNING, "has no offset 200, but 0 to 100: messages expired, or"),
    ],
)
async def test_it_says_why_it_continues_elsewhere(
    offset: int,
    next_offset: int,
    level: int,
    printed: str,
    new_reader: New,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    reader = new_reader(pulled(PullStatus.OUT_OF_RANGE, next_offset), starts=[offset])
    await reader.has_asked(2)
    (record,) = [each for each in caplog.records if printed in each.message]
    assert record.levelno == level
