"""Settings of any member of a consumer group: what push and pull consumers have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypedDict

from roquet.client.arguments import bad, check_function, check_moment, check_number
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.config import Credentials, TlsConfig
from roquet.client.group.allocation import Allocation, average
from roquet.client.group.offsets import OffsetStore
from roquet.client.group.start_offset import Start, StartFrom
from roquet.client.names import check_group, check_instance
from roquet.client.received import ReceivedMessage

SOON: Final = 1e-3
NEVER: Final = 1e9

# Returns whether to deliver a message. Called in the event loop, so it must not block.
MessageFilter = Callable[[ReceivedMessage], bool]

# Minimum and maximum of a number.
Ranges = dict[str, tuple[float, float]]


class MemberOptions(TypedDict, total=False):
    """Options of a member besides name server and group; `MemberConfig` explains them."""

    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    broadcasting: bool
    start_from: Start
    new_queues_from_first: bool
    message_filter: MessageFilter | None
    allocation: Allocation
    offset_store: OffsetStore | None
    offsets_directory: Path | str | None
    instance_name: str | None
    unit: str | None
    commit_interval_s: float
    balance_interval_s: float
    error_pause_s: float
    route_interval_s: float
    heartbeat_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Checked when it is made, and immutable."""

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # lists them; None takes NAMESRV_ADDR of the environment.
    name_server: str | None
    group: str
    namespace: str | None = None
    credentials: Credentials | None = None
    # True encrypts with the defaults of `TlsConfig`.
    tls: TlsConfig | bool = False
    # Every member reads all queues and stores its own offsets; failed messages are not retried.
    broadcasting: bool = False
    # For a group without offsets; any other resumes at its committed offsets.
    start_from: Start = StartFrom.AUTO
    # A queue that is added to a topic later is read from its first message. If False, it starts at
    # `start_from`, as in Java, and messages sent before it was noticed may be skipped.
    new_queues_from_first: bool = True
    # Called with each message before it is delivered; what it rejects counts as consumed.
    message_filter: MessageFilter | None = None
    # All members must use the same strategy.
    allocation: Allocation = average
    # Stores offsets in place of the broker, or of the file of broadcasting.
    offset_store: OffsetStore | None = None
    # For broadcasting; None is `.rocketmq_offsets` in the home directory, as in Java.
    offsets_directory: Path | str | None = None
    # Part of the client id, which must be unique in a group. None generates one; for broadcasting,
    # whose offsets must be found again, it is "DEFAULT". Clients of the same instance name share
    # their connections, heartbeats and routes.
    instance_name: str | None = None
    # The unit of a company that the client belongs to: the last part of the id.
    unit: str | None = None
    commit_interval_s: float = 5.0
    balance_interval_s: float = 20.0
    # The pause before a broker that failed or refused is asked again.
    error_pause_s: float = 1.0
    route_interval_s: float = 30.0
    heartbeat_interval_s: float = 30.0

    def check(self, own_ranges: Ranges) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        check_group(self.group)
        name_server_source(self.name_server)
        for name, (low, high) in (own_ranges | _RANGES).items():
            value = getattr(self, name)
            if value is not None:
                check_number(name, value, low, high)
        check_instance(self.instance_name, self.unit)
        if self.message_filter is not None:
            check_function("message_filter", self.message_filter)
        if self.offset_store is not None and not isinstance(self.offset_store, OffsetStore):
            raise bad("offset_store", "an object with `kept` and `keep`", self.offset_store)
        if isinstance(self.start_from, datetime):
            check_moment("start_from", self.start_from)
        elif not isinstance(self.start_from, StartFrom):
            raise bad("start_from", "a StartFrom or a datetime", self.start_from)


_RANGES: Final = {
    "commit_interval_s": (SOON, NEVER),
    "balance_interval_s": (SOON, NEVER),
    "error_pause_s": (SOON, NEVER),
    "route_interval_s": (SOON, NEVER),
    "heartbeat_interval_s": (SOON, NEVER),
}
