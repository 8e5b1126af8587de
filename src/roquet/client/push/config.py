"""How push consumers are set up: checked when they are made, and never changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypedDict

from roquet.client.cluster.name_servers import split_name_servers
from roquet.client.cluster.tls import TlsConfig
from roquet.client.config import Credentials
from roquet.client.errors import BadArgument
from roquet.client.group.allocation import Allocation, average
from roquet.client.group.start_offset import Start, StartFrom
from roquet.client.hooks import ConsumeHook
from roquet.client.names import check_group, check_topic

# What brokers do when a consumer does not say how often it wants a message again.
RETRY_COUNT_MAX: Final = 16
ENDLESS: Final = 2**31 - 1

_PULL_COUNT: Final = 32
_BATCH_SIZE_MAX: Final = 1024
_CONCURRENCY_MAX: Final = 1000


class PushConsumerOptions(TypedDict, total=False):
    """What a push consumer takes besides name server, group and listener; `PushConsumerConfig`
    explains."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    hooks: Sequence[ConsumeHook]
    trace: bool | str
    batch_size: int | None
    orderly: bool
    broadcasting: bool
    start_from: Start
    allocation: Allocation
    concurrency: int
    retry_count_max: int | None
    retry_pause_s: float
    consume_timeout_s: float
    close_timeout_s: float
    pull_count: int | None
    pull_interval_s: float
    queue_count_max: int
    queue_size_max: int
    queue_span_max: int
    topic_count_max: int | None
    topic_size_max: int | None
    offsets_directory: Path | str | None
    instance_name: str | None
    commit_interval_s: float
    balance_interval_s: float
    error_pause_s: float
    route_interval_s: float
    heartbeat_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PushConsumerConfig:
    """Defaults are those of the Java client where it has the setting."""

    # "host:port", several of them joined by semicolons.
    name_server: str
    group: str
    namespace: str | None = None
    credentials: Credentials | None = None
    # True is encrypted as `TlsConfig()` says.
    tls: TlsConfig | bool = False
    hooks: Sequence[ConsumeHook] = ()
    # Write down what becomes of messages: in the usual topic, or in one of this name.
    trace: bool | str = False
    # With a number the listener gets a list of up to as many messages of one queue.
    batch_size: int | None = None
    # The messages of a queue one after the other; one that fails holds up those behind it.
    orderly: bool = False
    # Every member reads everything and keeps its own offsets; what fails is not repeated.
    broadcasting: bool = False
    # For a group that was never there; any other goes on where it was.
    start_from: Start = StartFrom.LAST
    # All members have to share in the same way.
    allocation: Allocation = average
    # How many listeners run at the same time: threads for a function, tasks for a coroutine.
    concurrency: int = 20
    # How often a message comes again before it is a dead letter; None is 16, or endless in order.
    retry_count_max: int | None = None
    # How long a queue rests, in order, when a message failed.
    retry_pause_s: float = 1.0
    # A listener that takes longer has failed. A coroutine is cancelled; a thread cannot be stopped.
    # In order there is no limit, because two listeners would be in one queue.
    consume_timeout_s: float = 15 * 60.0
    # How long `close` waits for running listeners.
    close_timeout_s: float = 10.0
    # The most messages of one pull; None is 32, or as many as a batch has.
    pull_count: int | None = None
    pull_interval_s: float = 0.0
    # Above one of these no more is pulled: unfinished messages of a queue, their bytes, and the
    # distance of the first and the last of them.
    queue_count_max: int = 1000
    queue_size_max: int = 100 * 1024 * 1024
    queue_span_max: int = 2000
    # The same for a topic: shared by the queues that this member reads.
    topic_count_max: int | None = None
    topic_size_max: int | None = None
    # For broadcasting; None is `.rocketmq_offsets` in the home directory, as in Java.
    offsets_directory: Path | str | None = None
    # Part of the client id, which must be unique in a group. None is made up; for broadcasting,
    # whose offsets have to be found again, it is "DEFAULT".
    instance_name: str | None = None
    commit_interval_s: float = 5.0
    balance_interval_s: float = 20.0
    # Before a broker that failed or refused is asked again.
    error_pause_s: float = 1.0
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        check_group(self.group)
        split_name_servers(self.name_server)
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise BadArgument(f"`{name}` has to be from {low:g} to {high:g}, not {value}")
        if isinstance(self.trace, str):
            check_topic(self.trace)
        if isinstance(self.start_from, datetime) and self.start_from.tzinfo is None:
            raise BadArgument(f"`start_from` {self.start_from} has no time zone; give it one")

    @property
    def name_servers(self) -> tuple[str, ...]:
        return split_name_servers(self.name_server)

    @property
    def pull_count_max(self) -> int:
        return self.pull_count or max(_PULL_COUNT, self.batch_size or 1)

    @property
    def delivery_count_max(self) -> int:
        """How many messages a listener gets at once."""
        return self.batch_size or 1

    @property
    def wire_retry_count_max(self) -> int:
        if self.retry_count_max is not None:
            return self.retry_count_max
        return ENDLESS if self.orderly else RETRY_COUNT_MAX


_SOON: Final = 1e-3
_NEVER: Final = 1e9
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "batch_size": (1, _BATCH_SIZE_MAX),
    "concurrency": (1, _CONCURRENCY_MAX),
    "retry_count_max": (0, ENDLESS),
    "retry_pause_s": (_SOON, 30),
    "consume_timeout_s": (_SOON, _NEVER),
    "close_timeout_s": (0, _NEVER),
    "pull_count": (1, _BATCH_SIZE_MAX),
    "pull_interval_s": (0, _NEVER),
    "queue_count_max": (1, 65_535),
    "queue_size_max": (1, 2**30),
    "queue_span_max": (1, 65_535),
    "topic_count_max": (1, 6_553_500),
    "topic_size_max": (1, 100 * 2**30),
    "commit_interval_s": (_SOON, _NEVER),
    "balance_interval_s": (_SOON, _NEVER),
    "error_pause_s": (_SOON, _NEVER),
    "route_interval_s": (_SOON, _NEVER),
    "heartbeat_interval_s": (_SOON, _NEVER),
}
