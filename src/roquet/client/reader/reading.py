"""One range of a queue, read by many pulls at the same time, its records in order.

The range is cut into spans, as long as one reply is believed to be. Each span has one who pulls it,
one reply after the other until it is there; the next one begins before that. Whoever takes the
records waits for the oldest span only, and what is here or on its way stays below a limit.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple, final

from roquet.client.errors import ClientError, NotOpen, OffsetsGone, Unreachable
from roquet.client.group.pulling import PulledRecords, PullOrder, PullTerms
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import ChunkBuilder, PulledPiece, RecordChunk
from roquet.client.reader.fetch_sizing import (
    PULL_COUNT_MAX,
    PULL_SIZE_MAX,
    FetchEstimate,
    FetchSizeEstimate,
    FilteredFetchEstimate,
)
from roquet.client.reader.picking import Picked, Picker
from roquet.client.reader.pull_outcome import PullOutcome, behind_gap
from roquet.client.reader.retrying_puller import RetryingPuller
from roquet.net.service import OnFailure, Services
from roquet.protocol.errors import BadMessage
from roquet.protocol.subscription import Subscription

_WHAT: Final = "topic reader"
# Spans in which a filter finds nothing bring no bytes, but take memory all the same.
_SPAN_COUNT_MAX: Final = 4096


class ReadOrder(NamedTuple):
    """What is read, as brokers know it; with `skips_gone` what is not there is passed over."""

    queue: QueueRef
    start: int
    end: int
    subscription: Subscription
    skips_gone: bool = False


class ReadAheadLimits(NamedTuple):
    in_flight: int
    ahead_size: int


class _Span:
    """From `offset`, which moves, to before `end`; over when there is nothing more to come."""

    __slots__ = ("end", "error", "is_over", "offset", "pieces")

    def __init__(self, offset: int, end: int) -> None:
        self.offset = offset
        self.end = end
        self.pieces: deque[PulledPiece] = deque()
        self.error: ClientError | None = None
        self.is_over = False


@final
class RangeReading:
    """`name` is how the caller knows the queue. Raises BadArgument for its subscription."""

    def __init__(
        self,
        puller: RetryingPuller,
        services: Services,
        order: ReadOrder,
        limits: ReadAheadLimits,
        name: QueueRef,
    ) -> None:
        self._puller = puller
        self._services = services
        self._order = order
        self._limits = limits
        self._name = name
        self._picker = Picker(order.subscription)
        self._estimate: FetchEstimate = (
            FilteredFetchEstimate() if self._picker.is_filter else FetchSizeEstimate()
        )
        self._is_proven = False  # A first reply shows what to believe.
        self._begun = order.start  # Everything before it is in a span, or done.
        self._spans: deque[_Span] = deque()
        self._running_count = 0
        self._held_size = 0
        self._reply_size = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._builder = ChunkBuilder(name, order.start)

    async def next_chunk(self) -> RecordChunk | None:
        """None at the end. What comes before an error is handed out before it is raised.

        Raises OffsetsGone, Unreachable, RequestRefused or NotOpen.
        """
        builder = self._builder
        if not self._tasks:
            self._begin_worker()
        while not builder.is_full:
            span = self._spans[0] if self._spans else None
            if span is None:
                if self._begun >= self._order.end:
                    break
                await self._news()
            elif span.pieces:
                self._take(span)
            elif span.error is not None:
                if builder.has_records:
                    break
                raise span.error
            elif span.is_over:
                self._spans.popleft()
                self._has_room.set()
            else:
                await self._news()
        return builder.chunk() if builder.has_records else None

    def close(self) -> None:
        """Nobody wants more of it."""
        for task in self._tasks:
            task.cancel()

    # Of whoever takes the records.

    async def _news(self) -> None:
        if all(task.done() for task in self._tasks):
            raise NotOpen(_WHAT, was_open=True)
        self._has_news.clear()
        await self._has_news.wait()

    def _take(self, span: _Span) -> None:
        while span.pieces and not self._builder.is_full:
            piece = span.pieces.popleft()
            self._held_size -= len(piece.data)
            self._builder.add(piece)
        self._has_room.set()

    # Of those who pull.

    def _begin_worker(self) -> None:
        task = self._services.run(f"read {self._name}", self._work, on_failure=OnFailure.RESTART)
        if task is None:
            raise NotOpen(_WHAT, was_open=True)
        task.add_done_callback(lambda _: self._has_news.set())
        self._tasks.append(task)

    async def _work(self) -> None:
        while (span := await self._next_span()) is not None:
            self._running_count += 1
            try:
                await self._fill(span)
                span.is_over = True
            except ClientError as error:
                span.error = error
                return  # Nobody gets further than this.
            finally:
                if not span.is_over and span.error is None:
                    # Cancelled, or a mistake of ours: nobody may be left waiting for ever.
                    span.error = NotOpen(_WHAT, was_open=True)
                self._running_count -= 1
                if span is self._spans[0]:
                    self._has_news.set()

    async def _next_span(self) -> _Span | None:
        while True:
            if self._begun >= self._order.end:
                return None
            if self._may_begin():
                break
            self._has_room.clear()
            await self._has_room.wait()
        end = min(self._begun + self._estimate.span_count, self._order.end)
        span = _Span(self._begun, end)
        self._spans.append(span)
        self._begun = end
        return span

    def _may_begin(self) -> bool:
        if not self._spans:
            return True
        expected_size = self._held_size + (1 + self._running_count) * self._reply_size
        return (
            self._is_proven
            and expected_size <= self._limits.ahead_size
            and len(self._spans) < _SPAN_COUNT_MAX
        )

    async def _fill(self, span: _Span) -> None:
        while span.offset < span.end:
            while not self._may_go_on(span):
                self._has_room.clear()
                await self._has_room.wait()
            piece = await self._pull(span)
            span.offset = piece.next_offset
            span.pieces.append(piece)
            self._held_size += len(piece.data)
            if span is self._spans[0]:
                self._has_news.set()

    def _may_go_on(self, span: _Span) -> bool:
        """With messages larger than before, a span may be more than was meant to be here."""
        if self._held_size <= self._limits.ahead_size:
            return True
        # Whoever waits for records waits for these.
        return span is self._spans[0] and not span.pieces

    async def _pull(self, span: _Span) -> PulledPiece:
        offset = span.offset
        count_max = PULL_COUNT_MAX if self._picker.is_filter else span.end - offset
        terms = PullTerms(
            self._order.subscription,
            count_max,
            suspend_s=0.0,
            says_subscription=True,
            size_max=PULL_SIZE_MAX,
        )
        order = PullOrder(self._order.queue, terms, offset)
        outcome, reply = await self._puller.pull(order, is_filtered=self._picker.is_filter)
        if outcome is PullOutcome.GONE:
            self._check_gone(reply, offset)
            return PulledPiece(behind_gap(reply, offset, span.end), 0, b"")
        self._learn(span, count_max, reply)
        next_offset = min(reply.next_offset, span.end)
        picked = self._picked(reply, offset, next_offset)
        if not self._picker.is_filter and picked.whole_end < next_offset:
            self._check_gone(reply, picked.whole_end)
        return PulledPiece(next_offset, picked.record_count, picked.records)

    def _check_gone(self, reply: PulledRecords, offset: int) -> None:
        if self._order.skips_gone:
            return
        wanted = (offset, self._order.end)
        raise OffsetsGone(self._name, wanted, (reply.min_offset, reply.max_offset))

    def _learn(self, span: _Span, asked: int, reply: PulledRecords) -> None:
        self._estimate.note(asked, reply.next_offset - span.offset, len(reply.records))
        self._reply_size = len(reply.records)
        if self._is_proven:
            return
        self._is_proven = True
        # There is no other span yet, so this one may end with what came.
        span.end = self._begun = min(reply.next_offset, self._order.end)
        span_count = -(-(self._order.end - span.end) // self._estimate.span_count)
        for _ in range(min(span_count, self._limits.in_flight - 1)):
            self._begin_worker()

    def _picked(self, reply: PulledRecords, offset: int, end: int) -> Picked:
        try:
            return self._picker.pick(reply.records, offset, end)
        except BadMessage as error:
            broker = self._order.queue.broker_name
            raise Unreachable(broker, f"it answered nonsense: {error}") from None
