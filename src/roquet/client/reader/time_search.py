"""The first message of a queue at a moment or later: the broker's answer, made exact.

4.9 returns the message that is nearest to the moment, any one of equal times, and the last one for
a later moment; 5.x the first one that is not older. So that message is checked, and its neighbours,
in steps that double; mostly two pulls of one message.
"""

from collections.abc import Awaitable, Callable
from typing import final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.pulling import PullOrder, PullTerms
from roquet.client.errors import Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.retrying_puller import PullOutcome, RetryingPuller, after_gap
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import peek_record
from roquet.protocol.subscription import Subscription

# Whether the message at an offset is not older than the moment.
IsLate = Callable[[int], Awaitable[bool]]


@final
class TimeSearch:
    def __init__(self, brokers: Brokers, puller: RetryingPuller) -> None:
        self._brokers = brokers
        self._puller = puller

    async def first_at(self, queue: QueueRef, timestamp_ms: int) -> int:
        """The end of the queue if all are older. Raises Unreachable or RequestRefused."""
        low = await self._brokers.min_offset(queue)
        high = await self._brokers.max_offset(queue)
        if low >= high:
            return high

        async def is_late(offset: int) -> bool:
            stored_ms = await self._store_time(queue, offset, high)
            return stored_ms is None or stored_ms >= timestamp_ms

        guess = await self._brokers.offset_at(queue, timestamp_ms)
        return await first_late(is_late, low, high, min(max(guess, low), high - 1))

    async def _store_time(self, queue: QueueRef, offset: int, end: int) -> int | None:
        """Of the first message at `offset` or later; None if there is none before `end`."""
        terms = PullTerms(Subscription(queue.topic), 1, suspend_s=0.0, sends_subscription=True)
        while offset < end:
            order = PullOrder(queue, terms, offset)
            outcome, reply = await self._puller.pull(order, is_filtered=False)
            if outcome is PullOutcome.GOES_ON:
                try:
                    return peek_record(reply.records).store_timestamp
                except BadMessage as error:
                    reason = f"invalid response: {error}"
                    raise Unreachable(queue.broker_name, reason) from None
            offset = after_gap(reply, offset, end)
        return None


async def first_late(is_late: IsLate, low: int, high: int, guess: int) -> int:
    """The first offset from `low` to before `high` that is late, as all after it are; or `high`.

    `guess` is one of them, and near to it.
    """
    step = 1
    if await is_late(guess):
        high = guess
        while high > low:
            before = max(low, high - step)
            if not await is_late(before):
                low = before + 1
                break
            high = before
            step *= 2
    else:
        low = guess + 1
        while low < high:
            after = min(high - 1, low - 1 + step)
            if await is_late(after):
                high = after
                break
            low = after + 1
            step *= 2
    while low < high:
        middle = (low + high) // 2
        if await is_late(middle):
            high = middle
        else:
            low = middle + 1
    return low
