"""Settings of push consumers: checked when they are made, and immutable."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from roquet.client.cluster.popping import INVISIBLE_S, INVISIBLE_S_MAX
from roquet.client.config import check_hooks
from roquet.client.errors import BadArgument
from roquet.client.group.config import NEVER, SOON, MemberConfig, MemberOptions, Ranges
from roquet.client.hooks import ConsumeHook
from roquet.client.middleware import Middleware, check_middleware
from roquet.client.names import check_topic

# The default of brokers.
RETRY_COUNT_MAX: Final = 16
ENDLESS: Final = 2**31 - 1

# What Apache's brokers answer at most, and what is worth a pull of ours.
_PULL_COUNT_MIN: Final = 32
_PULL_COUNT: Final = 128
_BATCH_SIZE_MAX: Final = 1024
_CONCURRENCY_MAX: Final = 1000


class PushConsumerOptions(MemberOptions, total=False):
    """Options of a push consumer besides name server, group, listener and `batch_size`;
    `PushConsumerConfig` explains them."""

    hooks: Sequence[ConsumeHook]
    middleware: Sequence[Middleware]
    trace: bool | str
    orderly: bool
    mode: Literal["pull", "pop"]
    invisible_s: float
    concurrency: int
    retry_count_max: int | None
    retry_pause_s: float
    consume_timeout_s: float
    close_timeout_s: float
    pull_count: int | None
    pull_interval_s: float
    stuck_pull_s: float
    queue_count_max: int
    queue_size_max: int
    queue_span_max: int
    topic_count_max: int | None
    topic_size_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerConfig(MemberConfig):
    """Settings of a push consumer; its members are options of `PushConsumer`.

    Defaults are those of the Java client where it has the setting. Raises BadArgument, and
    BadAddress for the name server.

    For example:

        PushConsumer("127.0.0.1:9876", "billing", print, orderly=True, retry_count_max=3)
    """

    hooks: Sequence[ConsumeHook] = ()
    # Surrounds each call of the listener; the first one is the outermost.
    middleware: Sequence[Middleware] = ()
    # Traces messages: to the default trace topic, or to the topic of this name.
    trace: bool | str = False
    # With a number the listener gets a list of up to that many messages of one queue.
    batch_size: int | None = None
    # The messages of a queue one after the other; one that fails holds up the following ones.
    orderly: bool = False
    # "pop" has brokers of Roquet or 5.x hand out messages one by one and keep account of them: more
    # members than queues can work, and a slow one holds up nothing. Neither in order nor broadcast.
    mode: Literal["pull", "pop"] = "pull"
    # How long a popped message belongs to this member; a listener that takes longer gets it again.
    invisible_s: float = INVISIBLE_S
    # How many listeners run at the same time: threads for a function, tasks for a coroutine.
    concurrency: int = 20
    # Retries of a message before it becomes a dead letter; None is 16, or no limit if `orderly`.
    retry_count_max: int | None = None
    # How long an orderly queue pauses after a failed message.
    retry_pause_s: float = 1.0
    # A listener that takes longer has failed. A coroutine is cancelled; a thread cannot be stopped.
    # No limit if `orderly`, because two listeners would run for one queue.
    consume_timeout_s: float = 15 * 60.0
    # How long `close` waits for running listeners.
    close_timeout_s: float = 10.0
    # The most messages of one pull; None is 128, but whole batches, and less if the queue is full
    # with less. Apache's brokers answer 32 at most.
    pull_count: int | None = None
    pull_interval_s: float = 0.0
    # A queue whose pull neither ends nor fails for this long is released and started again.
    stuck_pull_s: float = 120.0
    # Above one of these pulling pauses: unfinished messages of a queue, their bytes, and the
    # distance from the first to the last of them.
    queue_count_max: int = 1000
    queue_size_max: int = 100 * 1024 * 1024
    queue_span_max: int = 2000
    # The same for a topic: shared by the queues that this member reads.
    topic_count_max: int | None = None
    topic_size_max: int | None = None

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        self.check(_RANGES)
        if isinstance(self.trace, str):
            check_topic(self.trace)
        check_hooks(self.hooks, ConsumeHook)
        check_middleware(self.middleware)
        if self.middleware and self.batch_size is not None:
            raise BadArgument(
                "`middleware` sees one message at a time: leave out `batch_size`", "batch_size"
            )

        self._check_mode()

    def _check_mode(self) -> None:
        """Raises BadArgument."""
        if self.mode not in ("pull", "pop"):
            raise BadArgument(f'`mode` must be "pull" or "pop", not {self.mode!r}', "mode")
        if self.mode == "pull":
            return
        for name in ("orderly", "broadcasting", "offset_store", "message_filter"):
            if getattr(self, name):
                raise BadArgument(f'with mode="pop" there is no `{name}`', name)
        if isinstance(self.start_from, datetime):
            raise BadArgument('with mode="pop" a group cannot start at a time', "start_from")

    @property
    def pull_count_max(self) -> int:
        if self.pull_count is not None:
            return self.pull_count
        batch_size = self.delivery_count_max
        limit = self.queue_count_max if self.topic_count_max is None else _PULL_COUNT_MIN
        count = max(_PULL_COUNT_MIN, min(_PULL_COUNT, limit))
        return max(1, count // batch_size) * batch_size

    @property
    def delivery_count_max(self) -> int:
        """How many messages a listener gets at once."""
        return self.batch_size or 1

    @property
    def wire_retry_count_max(self) -> int:
        if self.retry_count_max is not None:
            return self.retry_count_max
        return ENDLESS if self.orderly else RETRY_COUNT_MAX


_RANGES: Final[Ranges] = {
    "batch_size": (1, _BATCH_SIZE_MAX),
    "concurrency": (1, _CONCURRENCY_MAX),
    "retry_count_max": (0, ENDLESS),
    "retry_pause_s": (SOON, 30),
    "invisible_s": (1, INVISIBLE_S_MAX),
    "consume_timeout_s": (SOON, NEVER),
    "close_timeout_s": (0, NEVER),
    "pull_count": (1, _BATCH_SIZE_MAX),
    "pull_interval_s": (0, NEVER),
    "stuck_pull_s": (SOON, NEVER),
    "queue_count_max": (1, 65_535),
    "queue_size_max": (1, 2**30),
    "queue_span_max": (1, 65_535),
    "topic_count_max": (1, 6_553_500),
    "topic_size_max": (1, 100 * 2**30),
}
