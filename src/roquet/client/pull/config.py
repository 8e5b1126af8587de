"""How pull consumers are set up: checked when they are made, and never changed."""

from collections.abc import Callable, Sequence
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
from roquet.client.names import check_group
from roquet.client.queue_ref import QueueRef

# Is told which queues the consumer has from now on.
OnQueues = Callable[[Sequence[QueueRef]], None]


class PullConsumerOptions(TypedDict, total=False):
    """What a pull consumer takes besides name server and group; `PullConsumerConfig` explains."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    broadcasting: bool
    start_from: Start
    allocation: Allocation
    on_queues: OnQueues | None
    auto_commit: bool
    prefetch: bool
    pull_count: int
    poll_count: int
    queue_count_max: int
    queue_size_max: int
    cached_count_max: int
    suspend_s: float
    offsets_directory: Path | str | None
    instance_name: str | None
    commit_interval_s: float
    balance_interval_s: float
    error_pause_s: float
    route_interval_s: float
    heartbeat_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PullConsumerConfig:
    """Defaults are those of Java's lite pull consumer, except that more is pulled at once."""

    # "host:port", several of them joined by semicolons.
    name_server: str
    group: str
    namespace: str | None = None
    credentials: Credentials | None = None
    # True is encrypted as `TlsConfig()` says.
    tls: TlsConfig | bool = False
    # Every member reads everything and keeps its own offsets.
    broadcasting: bool = False
    # For a group that was never there; any other goes on where it was.
    start_from: Start = StartFrom.LAST
    # All members have to share in the same way.
    allocation: Allocation = average
    # Called in the event loop when queues came or went.
    on_queues: OnQueues | None = None
    # What a poll gave counts as done when the next one begins.
    auto_commit: bool = True
    # Messages wait here before `poll` asks for them. Without it there is only `pull`.
    prefetch: bool = True
    # The most messages of one pull. Brokers give 32 unless their operator allows more, by
    # `maxTransferCountOnMessageInMemory`; that is worth a factor of three.
    pull_count: int = 256
    # A poll takes whole pulls until it has as many messages.
    poll_count: int = 1000
    # Above one of these no more is pulled: what waits of a queue, its bytes, and what waits of all.
    queue_count_max: int = 1000
    queue_size_max: int = 100 * 1024 * 1024
    cached_count_max: int = 10_000
    # How long a broker may keep a pull when there is nothing new.
    suspend_s: float = 20.0
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
            if not low <= value <= high:
                raise BadArgument(f"`{name}` has to be from {low:g} to {high:g}, not {value}")
        if isinstance(self.start_from, datetime) and self.start_from.tzinfo is None:
            raise BadArgument(f"`start_from` {self.start_from} has no time zone; give it one")

    @property
    def name_servers(self) -> tuple[str, ...]:
        return split_name_servers(self.name_server)


_SOON: Final = 1e-3
_NEVER: Final = 1e9
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "pull_count": (1, 1024),
    "poll_count": (1, _NEVER),
    "queue_count_max": (1, 65_535),
    "queue_size_max": (1, 2**30),
    "cached_count_max": (1, _NEVER),
    "suspend_s": (_SOON, 600),
    "commit_interval_s": (_SOON, _NEVER),
    "balance_interval_s": (_SOON, _NEVER),
    "error_pause_s": (_SOON, _NEVER),
    "route_interval_s": (_SOON, _NEVER),
    "heartbeat_interval_s": (_SOON, _NEVER),
}
