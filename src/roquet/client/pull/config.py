"""How pull consumers are set up: checked when they are made, and never changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from roquet.client.group.config import NEVER, SOON, MemberConfig, MemberOptions, Ranges
from roquet.client.queue_ref import QueueRef

# Is told which queues the consumer has from now on.
OnQueues = Callable[[Sequence[QueueRef]], None]


class PullConsumerOptions(MemberOptions, total=False):
    """What a pull consumer takes besides name server and group; `PullConsumerConfig` explains."""

    on_queues: OnQueues | None
    auto_commit: bool
    prefetch: bool
    pull_count: int
    poll_count: int
    queue_count_max: int
    queue_size_max: int
    cached_count_max: int
    suspend_s: float
    topic_check_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerConfig(MemberConfig):
    """How a pull consumer is set up; its members are options of `PullConsumer`.

    Defaults are those of Java's lite pull consumer, except that more is pulled at once.

    For example:

        PullConsumer("127.0.0.1:9876", "archive", auto_commit=False, pull_count=512)
    """

    # Called in the event loop when queues came or went.
    on_queues: OnQueues | None = None
    # What a poll gave counts as done when the next one begins.
    auto_commit: bool = True
    # Messages wait here before `poll` asks for them. Without it there is only `pull`.
    prefetch: bool = True
    # The most messages of one pull. Brokers give 32 unless their operator allows more, by
    # `maxTransferCountOnMessageInMemory`; that is worth a factor of three.
    pull_count: int = 256
    # A poll takes whole pulls until it has at least this many messages.
    poll_count: int = 1000
    # Above one of these no more is pulled: what waits of a queue, its bytes, and what waits of all.
    queue_count_max: int = 1000
    queue_size_max: int = 100 * 1024 * 1024
    cached_count_max: int = 10_000
    # How long a broker may keep a pull when there is nothing new.
    suspend_s: float = 20.0
    # How often topics are looked at whose queues are watched.
    topic_check_interval_s: float = 30.0

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        self.check(_RANGES)


_RANGES: Final[Ranges] = {
    "pull_count": (1, 1024),
    "poll_count": (1, NEVER),
    "queue_count_max": (1, 65_535),
    "queue_size_max": (1, 2**30),
    "cached_count_max": (1, NEVER),
    "suspend_s": (SOON, 600),
    "topic_check_interval_s": (SOON, NEVER),
}
