"""One range of a queue, read by many concurrent pulls, its records in order.

The range is cut into spans, each as long as one reply is estimated to be. A worker fills a span,
one reply after the other; the next span is started before that one is complete. The consumer of the
records waits for the oldest span only, and what is buffered or in flight stays below a limit.

Filters are applied again after the broker. It compares hashes of tags, and "Aa" has that of "BB".
By an SQL92 expression that it cannot compile it filters nothing, so that is compiled here first,
and every message it let pass is checked again, at a few microseconds each. What a 4.9 does not know
of 5.x, such as CONTAINS, ends its parsing of the expression, and then mostly nothing passes: that
cannot be made good here.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, final

from roquet.client.cluster.pulling import PULL_SIZE_MAX, PulledRecords, PullOrder, PullTerms
from roquet.client.errors import BadArgument, ClientError, NotOpen, OffsetsGone, Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import ChunkBuilder, PulledPiece, RecordChunk
from roquet.client.reader.retrying_puller import PullOutcome, RetryingPuller, after_gap
from roquet.net.service import OnFailure, Services
from roquet.protocol.errors import BadExpression, BadMessage, TooLarge
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.properties import parse_properties
from roquet.protocol.messages.record import peek_record
from roquet.protocol.messages.record_picking import pick_records
from roquet.protocol.sql_filter import compile_filter
from roquet.protocol.subscription import ExpressionType, Subscription

# The most messages of one pull: more makes either side wait for the other.
PULL_COUNT_MAX: Final = 4096

# A reply as large as this was cut by its size, and the next one may have a few messages less.
_ENDED_BY_SIZE_FROM: Final = 160 * 1024
_MARGIN_PART: Final = 8
_FULL_COUNT_TO_GROW: Final = 8
# With so few pulls per filtered span, hardly any overshoots it in vain.
_PULLS_OF_SPAN: Final = 8


class FetchEstimate(Protocol):
    """How many offsets one pull returns, estimated from replies.

    Brokers return less than is asked for, and do not announce their limits: 32 messages or 256 KiB
    from memory, 8 messages or 64 KiB from disk, other numbers if configured. With a filter they
    skip what does not match, up to 800 offsets or more. To have many pulls in flight, the size of
    their replies must be estimated; what a reply falls short is pulled again.
    """

    @property
    def span_count(self) -> int:
        """How many offsets a worker gets, to pull one reply after the other."""

    def note(self, asked: int, brought: int, size: int) -> None:
        """A pull of `asked` offsets returned `brought` of them, in `size` bytes."""


@final
class FetchSizeEstimate:
    """Without a filter: a pull returns as many as it asks for, or the limit of the broker."""

    def __init__(self) -> None:
        self.span_count = PULL_COUNT_MAX
        self._full_count = 0

    def note(self, asked: int, brought: int, size: int) -> None:
        if brought < asked:
            self._full_count = 0
            margin = brought // _MARGIN_PART if size >= _ENDED_BY_SIZE_FROM else 0
            self.span_count = max(1, brought - margin)
            return
        self._full_count += 1
        # Messages may be smaller now, or in memory. If not, a doubled span costs no more pulls.
        if self._full_count >= _FULL_COUNT_TO_GROW and 2 * size <= PULL_SIZE_MAX:
            self._full_count = 0
            self.span_count = min(2 * self.span_count, PULL_COUNT_MAX)


@final
class FilteredFetchEstimate:
    """With a filter: a pull may advance over any number of offsets."""

    def __init__(self) -> None:
        self._advance: int | None = None

    @property
    def span_count(self) -> int:
        return PULL_COUNT_MAX if self._advance is None else _PULLS_OF_SPAN * self._advance

    def note(self, asked: int, brought: int, size: int) -> None:  # noqa: ARG002
        old = self._advance
        self._advance = max(1, brought if old is None else (3 * old + brought) // 4)


_WHAT: Final = "topic reader"
# Spans without a match have no bytes, but take memory all the same.
_SPAN_COUNT_MAX: Final = 4096

_INNER_BATCH = SysFlag.INNER_BATCH.value


class ReadOrder(NamedTuple):
    """The range to read, with brokers' topic; `skips_gone` skips offsets that are gone."""

    queue: QueueRef
    start: int
    end: int
    subscription: Subscription
    skips_gone: bool = False


class ReadAheadLimits(NamedTuple):
    in_flight: int
    ahead_size: int


class _Span:
    """From `offset`, which advances, to before `end`; over when it is complete."""

    __slots__ = ("end", "error", "is_over", "offset", "pieces")

    def __init__(self, offset: int, end: int) -> None:
        self.offset = offset
        self.end = end
        self.pieces: deque[PulledPiece] = deque()
        self.error: ClientError | None = None
        self.is_over = False


@final
class RangeReader:
    """`name` is the caller's name of the queue. Raises BadArgument for its subscription."""

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
        self._has_estimate = False  # Until the first reply.
        self._started = order.start  # Everything before it is in a span, or complete.
        self._spans: deque[_Span] = deque()
        self._running_count = 0
        self._held_size = 0
        self._reply_size = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._builder = ChunkBuilder(name, order.start)

    async def next_chunk(self) -> RecordChunk | None:
        """None at the end. Records before an error are returned before it is raised.

        Raises OffsetsGone, Unreachable, RequestRefused or NotOpen.
        """
        builder = self._builder
        if not self._tasks:
            self._start_worker()
        while not builder.is_full:
            span = self._spans[0] if self._spans else None
            if span is None:
                if self._started >= self._order.end:
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
        """Cancels its pulls."""
        for task in self._tasks:
            task.cancel()

    # For the consumer of the records.

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

    # For the workers.

    def _start_worker(self) -> None:
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
                return  # Reading ends here.
            finally:
                if not span.is_over and span.error is None:
                    # Cancelled, or a bug: the consumer must not wait for ever.
                    span.error = NotOpen(_WHAT, was_open=True)
                self._running_count -= 1
                if span is self._spans[0]:
                    self._has_news.set()

    async def _next_span(self) -> _Span | None:
        while True:
            if self._started >= self._order.end:
                return None
            if self._may_start():
                break
            self._has_room.clear()
            await self._has_room.wait()
        end = min(self._started + self._estimate.span_count, self._order.end)
        span = _Span(self._started, end)
        self._spans.append(span)
        self._started = end
        return span

    def _may_start(self) -> bool:
        if not self._spans:
            return True
        expected_size = self._held_size + (1 + self._running_count) * self._reply_size
        return (
            self._has_estimate
            and expected_size <= self._limits.ahead_size
            and len(self._spans) < _SPAN_COUNT_MAX
        )

    async def _fill(self, span: _Span) -> None:
        while span.offset < span.end:
            while not self._may_continue(span):
                self._has_room.clear()
                await self._has_room.wait()
            piece = await self._pull(span)
            span.offset = piece.next_offset
            span.pieces.append(piece)
            self._held_size += len(piece.data)
            if span is self._spans[0]:
                self._has_news.set()

    def _may_continue(self, span: _Span) -> bool:
        """With messages larger than before, a span may exceed the limit."""
        if self._held_size <= self._limits.ahead_size:
            return True
        # The consumer waits for these.
        return span is self._spans[0] and not span.pieces

    async def _pull(self, span: _Span) -> PulledPiece:
        offset = span.offset
        count_max = PULL_COUNT_MAX if self._picker.is_filter else span.end - offset
        terms = PullTerms(
            self._order.subscription,
            count_max,
            suspend_s=0.0,
            sends_subscription=True,
            size_max=PULL_SIZE_MAX,
        )
        order = PullOrder(self._order.queue, terms, offset)
        outcome, reply = await self._puller.pull(order, is_filtered=self._picker.is_filter)
        if outcome is PullOutcome.GONE:
            self._check_gone(reply, offset)
            return PulledPiece(after_gap(reply, offset, span.end), 0, b"")
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
        if self._has_estimate:
            return
        self._has_estimate = True
        # There is no other span yet, so this one may end with the reply.
        span.end = self._started = min(reply.next_offset, self._order.end)
        span_count = -(-(self._order.end - span.end) // self._estimate.span_count)
        for _ in range(min(span_count, self._limits.in_flight - 1)):
            self._start_worker()

    def _picked(self, reply: PulledRecords, offset: int, end: int) -> "Picked":
        try:
            return self._picker.pick(reply.records, offset, end)
        except BadMessage as error:
            broker = self._order.queue.broker_name
            raise Unreachable(broker, f"invalid response: {error}") from None


class Picked(NamedTuple):
    """`whole_end` is the first offset of the range without a record in the reply."""

    records: bytes
    record_count: int
    whole_end: int


@final
class Picker:
    """Raises BadArgument for an expression that cannot be compiled."""

    def __init__(self, subscription: Subscription) -> None:
        self.is_filter = not subscription.is_all
        self._tags = frozenset(tag.encode() for tag in subscription.tags) or None
        self._matches: Callable[[Mapping[str, str]], bool] | None = None
        if subscription.expression_type is ExpressionType.SQL92:
            try:
                self._matches = compile_filter(subscription.expression).matches
            except (BadExpression, TooLarge) as error:
                raise BadArgument(f"{subscription.expression!r}: {error}", "sql") from None

    def pick(self, records: bytes, start: int, end: int) -> Picked:
        """The records with offsets from `start` to before `end`. Raises BadMessage."""
        picked = Picked(*pick_records(records, start, end, self._tags))
        if self._matches is None or not picked.record_count:
            return picked
        return self._that_match(picked, self._matches)

    def _that_match(self, picked: Picked, matches: Callable[[Mapping[str, str]], bool]) -> Picked:
        records = picked.records
        kept: list[bytes] = []
        position = 0
        while position < len(records):
            head = peek_record(records, position)
            end = position + head.size
            properties = records[head.properties_start : head.properties_end]
            # Messages inside a record have properties of their own.
            if head.sys_flag & _INNER_BATCH or matches(
                parse_properties(properties.decode(errors="replace"))
            ):
                kept.append(records[position:end])
            position = end
        if len(kept) == picked.record_count:
            return picked
        return Picked(b"".join(kept), len(kept), picked.whole_end)
