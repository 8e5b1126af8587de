"""What is tried again and what is not, and who may overtake whom."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from roquet import AsyncProducer
from roquet.client.errors import (
    BadArgument,
    ClientError,
    SendFailed,
    SendRefused,
    SendUnknown,
    Unreachable,
)
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.sink.delivery import Deliverer, RateLimit, SendTimeouts, attempted, in_parallel
from roquet.pipeline.sink.requests import EncodedRow, SendRequest
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.live_cluster import LiveCluster

PATIENT = SendTimeouts(timedelta(seconds=5), timedelta(seconds=30))
BUSY = int(ResponseCode.SYSTEM_BUSY)
ILLEGAL = int(ResponseCode.MESSAGE_ILLEGAL)
TOPIC = "orders"


def raising(*errors: ClientError) -> Callable[[int], "asyncio.Future[int]"]:
    """An attempt that fails so often, and then returns how often it was tried before."""

    def attempt(count: int) -> "asyncio.Future[int]":
        done = asyncio.get_running_loop().create_future()
        if count < len(errors):
            done.set_exception(errors[count])
        else:
            done.set_result(count)
        return done

    return attempt


@pytest.mark.parametrize(
    "error",
    [
        SendFailed(TOPIC, "away"),
        SendUnknown(TOPIC, "timed out"),
        SendRefused(TOPIC, "busy", BUSY),
        Unreachable("broker-a", "away"),
    ],
)
async def test_what_may_pass_is_tried_again(error: ClientError) -> None:
    assert await attempted(raising(error, error), PATIENT) == 2


@pytest.mark.parametrize("error", [SendRefused(TOPIC, "no", ILLEGAL), BadArgument("no")])
async def test_what_no_repetition_changes_is_raised_at_once(error: ClientError) -> None:
    with pytest.raises(type(error)):
        await attempted(raising(error), PATIENT)


async def test_retries_have_an_end() -> None:
    impatient = SendTimeouts(timedelta(seconds=1), timedelta(milliseconds=150))
    with pytest.raises(SendFailed):
        await attempted(raising(*[SendFailed(TOPIC, "away")] * 100), impatient)


async def test_the_first_error_of_many_is_raised_as_it_is() -> None:
    async def fail() -> None:
        raise SendFailed(TOPIC, "away")

    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(SendFailed):
        await in_parallel([wait, fail, wait], 3)


def request(number: int, queue: QueueRef | None = None) -> SendRequest:
    first_id = f"id-{number}"
    body = encode_batch([(0, b"%d" % number, f"UNIQ_KEY\x01{first_id}".encode())])
    return SendRequest(TOPIC, queue, body, 1, first_id, (EncodedRow(first_id, len(body)),))


async def test_pieces_of_one_queue_do_not_overtake_each_other(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    queue = QueueRef(TOPIC, "broker-a", 2)
    deliverer = Deliverer(producer, PATIENT, RateLimit(None), checks_first=False, turn=0)
    await deliverer.deliver([request(number, queue) for number in range(50)], 16)
    assert [int(each.body) for each in cluster.stored(TOPIC, 2)] == [*range(50)]


async def test_a_piece_that_is_there_is_not_sent_again(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    """Wherever it is: the round through the queues starts elsewhere the second time."""
    requests = [request(number) for number in range(20)]
    for turn in (0, 3):
        deliverer = Deliverer(producer, PATIENT, RateLimit(None), checks_first=True, turn=turn)
        await deliverer.deliver(requests[: 10 + 5 * turn], 4)
    found = [each for queue_id in range(4) for each in cluster.stored(TOPIC, queue_id)]
    assert sorted(int(each.body) for each in found) == [*range(20)]


async def test_a_limit_holds_for_what_is_sent_and_not_for_what_is_there(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    loop = asyncio.get_running_loop()
    unlimited = Deliverer(producer, PATIENT, RateLimit(None), checks_first=True, turn=0)
    await unlimited.deliver([request(number) for number in range(100)], 4)
    # What is there would take a hundred seconds otherwise.
    async with asyncio.timeout(60):
        slow = Deliverer(producer, PATIENT, RateLimit(1), checks_first=True, turn=0)
        await slow.deliver([request(number) for number in range(100)], 4)
    started_s = loop.time()
    limited = Deliverer(producer, PATIENT, RateLimit(50), checks_first=True, turn=0)
    await limited.deliver([request(number) for number in range(95, 111)], 4)
    assert loop.time() - started_s >= 10 / 50
    found = [each for queue_id in range(4) for each in cluster.stored(TOPIC, queue_id)]
    assert sorted(int(each.body) for each in found) == [*range(111)]


async def test_nothing_waits_without_a_limit() -> None:
    rate_limit = RateLimit(None)
    async with asyncio.timeout(10):
        await asyncio.gather(*(rate_limit.admit(10**9) for _ in range(100)))


async def test_the_first_goes_at_once_and_the_others_in_their_turn() -> None:
    loop = asyncio.get_running_loop()
    rate_limit, went_s = RateLimit(1000), list[float]()
    started_s = loop.time()

    async def go() -> None:
        await rate_limit.admit(100)
        went_s.append(loop.time() - started_s)

    await asyncio.gather(*(go() for _ in range(4)))
    # Whoever waits for others does not go before them.
    assert went_s == sorted(went_s)
    for number, each in enumerate(went_s):
        assert each >= number * 0.1 - 0.01
