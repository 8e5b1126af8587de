"""Which message of a queue is the first one of a moment: the broker's guess, made exact.

4.9 answers with the message that is nearest to the moment, of equal times with any of them, and
with the last one for a moment behind it; 5.x with the first one that is not older. So the guess is
looked at, and its neighbours, in steps that double; mostly two pulls of one message.
"""

from collections.abc import Awaitable, Callable
from typing import final

from roquet.client.cluster.brokers import Brokers
from roquet.client.errors import Unreachable
from roquet.client.group.pulling import PullOrder, PullTerms
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.pull_outcome import PullOutcome, behind_gap
from roquet.client.reader.retrying_puller import RetryingPuller
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
        """Behind the last message if all are older. Raises Unreachable or RequestRefused."""
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
        """Of the first message from `offset` on; None if there is none before `end`."""
        terms = PullTerms(Subscription(queue.topic), 1, suspend_s=0.0, says_subscription=True)
        while offset < end:
            order = PullOrder(queue, terms, offset)
            outcome, reply = await self._puller.pull(order, is_filtered=False)
            if outcome is PullOutcome.GOES_ON:
                try:
                    return peek_record(reply.records).store_timestamp
                except BadMessage as error:
                    reason = f"it answered nonsense: {error}"
                    raise Unreachable(queue.broker_name, reason) from None
            offset = behind_gap(reply, offset, end)
        return None


async def first_late(is_late: IsLate, low: int, high: int, guess: int) -> int:
    """The first offset from `low` to before `high` that is late, as all behind it are; or `high`.

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
            behind = min(high - 1, low - 1 + step)
            if await is_late(behind):
                high = behind
                break
            low = behind + 1
            step *= 2
    while low < high:
        middle = (low + high) // 2
        if await is_late(middle):
            high = middle
        else:
            low = middle + 1
    return low
