"""Settings of pull consumers: checked when they are made, and immutable."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from roquet.client.group.config import NEVER, SOON, MemberConfig, MemberOptions, Ranges
from roquet.client.queue_ref import QueueRef

# Gets the queues that the consumer has from now on.
OnQueues = Callable[[Sequence[QueueRef]], None]


class PullConsumerOptions(MemberOptions, total=False):
    """Options of a pull consumer besides name server and group; see `PullConsumerConfig`."""

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
    """Settings of a pull consumer; its members are options of `PullConsumer`.

    Defaults are those of Java's lite pull consumer, except that more is pulled at once.

    For example:

        PullConsumer("127.0.0.1:9876", "archive", auto_commit=False, pull_count=512)
    """

    # Called in the event loop when the assignment changes.
    on_queues: OnQueues | None = None
    # The next poll acknowledges the messages of the last one.
    auto_commit: bool = True
    # Messages are fetched before `poll` asks for them. If False, only `pull` can be used.
    prefetch: bool = True
    # The most messages of one pull. Apache's brokers return 32 unless their operator allows more,
    # by `maxTransferCountOnMessageInMemory`; that makes pulling three times as fast.
    pull_count: int = 256
    # A poll takes whole pulls until it has at least this many messages.
    poll_count: int = 1000
    # Above one of these pulling pauses: cached messages of a queue, their bytes, and of all queues.
    queue_count_max: int = 1000
    queue_size_max: int = 100 * 1024 * 1024
    cached_count_max: int = 10_000
    # How long a broker may hold a pull when there are no new messages.
    suspend_s: float = 20.0
    # How often the queues of watched topics are checked.
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
