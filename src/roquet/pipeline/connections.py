"""Clients of the clusters that this process talks to, and requests that are retried.

Readers are kept until `close_readers`: Spark's workers run many tasks one after the other, and a
connection costs as much as a small task. A worker is forked before it imports this module, so
nothing is shared between processes. Requests are retried because an error in a call of the driver
ends a query at once.
"""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from roquet.backoff import Backoff
from roquet.client.blocking.reader import TopicReader
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import read_options
from roquet.protocol.codes import ResponseCode

if TYPE_CHECKING:
    from roquet.client.blocking.admin import Admin

_readers: dict[tuple[ClusterOptions, str], TopicReader] = {}
_opening = Lock()

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_S_FIRST: Final = 0.1
_PAUSE_S_MAX: Final = 5.0
# A topic that is missing when a query starts is most likely misspelt; but it also seems to be
# missing while its only broker restarts.
MISSING_GRACE: Final = timedelta(seconds=10)
# Errors of servers and of routes to them.
UNANSWERED: Final = (NoNameServer, RequestRefused, TopicNotFound, Unreachable)


def topic_reader(cluster: ClusterOptions, group: str) -> TopicReader:
    """An open reader, shared by all callers of this process with the same options."""
    with _opening:
        reader = _readers.get((cluster, group))
        if reader is None:
            reader = _readers[cluster, group] = _opened(cluster, group)
        return reader


def close_readers() -> None:
    """Closes all readers; a later call of `topic_reader` opens a new one."""
    with _opening:
        readers = list(_readers.values())
        _readers.clear()
    for reader in readers:
        reader.close()


def _opened(cluster: ClusterOptions, group: str) -> TopicReader:
    reader = TopicReader(
        cluster.name_server,
        group=group,
        namespace=cluster.namespace,
        credentials=credentials_of(cluster),
        tls=tls_of(cluster),
        timeout_s=cluster.request_timeout.total_seconds(),
        patience_s=cluster.retry_timeout.total_seconds(),
    )
    reader.open()
    return reader


def credentials_of(cluster: ClusterOptions) -> Credentials | None:
    if cluster.access_key is None or cluster.secret_key is None:
        return None
    return Credentials(cluster.access_key, cluster.secret_key, cluster.security_token)


def tls_of(cluster: ClusterOptions) -> TlsConfig | bool:
    return TlsConfig(ca_file=cluster.tls_ca_file) if cluster.tls_ca_file else cluster.tls


def cluster_admin(brokers: Mapping[str, str]) -> "Admin":
    """Not open yet. `brokers` are options of format `rocketmq`. Raises BadOption, and what the
    client raises.
    """
    # Of the programs that read, few need it.
    from roquet.client.blocking.admin import Admin  # noqa: PLC0415

    cluster = read_options(ClusterOptions, brokers)
    return Admin(
        cluster.name_server,
        namespace=cluster.namespace,
        credentials=credentials_of(cluster),
        tls=tls_of(cluster),
        timeout_s=cluster.request_timeout.total_seconds(),
    )


def is_missing_topic(error: ClientError) -> bool:
    match error:
        case RequestRefused():
            return error.code == ResponseCode.TOPIC_NOT_EXIST
        case TopicNotFound():
            return error.is_missing
    return False


def stays_missing(reader: TopicReader, topic: str, timeout: timedelta) -> bool:
    """Whether a topic is deleted: that of a broker which restarts comes back."""
    try:
        retried(lambda: reader.queues(topic), timeout)
    except TopicNotFound as error:
        return error.is_missing
    return False


def may_pass(error: ClientError) -> bool:
    """Whether the same request may succeed a little later.

    A missing topic may come back, with its broker or with the routes of a restarted name server.
    """
    if isinstance(error, RequestRefused):
        return error.is_busy or is_missing_topic(error)
    return isinstance(error, UNANSWERED)


def retry_time(error: ClientError, timeout: timedelta, *, is_starting: bool = False) -> timedelta:
    """How long a request that failed with this error is retried."""
    if not may_pass(error):
        return timedelta()
    return min(timeout, MISSING_GRACE) if is_starting and is_missing_topic(error) else timeout


def retried(ask: Callable[[], T], timeout: timedelta, *, is_starting: bool = False) -> T:
    """What `ask` returns, retried until `timeout`.

    Raises its last error when time is up, and at once one that a retry does not change.
    """
    started_s = time.monotonic()
    backoff = Backoff(_PAUSE_S_FIRST, _PAUSE_S_MAX)
    while True:
        try:
            return ask()
        except UNANSWERED as error:
            limit_s = retry_time(error, timeout, is_starting=is_starting).total_seconds()
            left_s = started_s + limit_s - time.monotonic()
            if left_s <= 0:
                raise
            # The last attempt is when the time is up.
            pause_s = min(backoff.next_s(), left_s)
            log.warning("retrying in %.1f s: %s", pause_s, error)
        time.sleep(pause_s)
