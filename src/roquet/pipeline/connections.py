"""Connections of this process to clusters: one reader for each, kept until `close_readers`.

Spark's workers run many tasks one after the other, and a connection costs as much as a small
task. A worker is forked before it imports this module, so nothing is shared between processes.
"""

from threading import Lock

from roquet.client.blocking.reader import TopicReader
from roquet.client.cluster.tls import TlsConfig
from roquet.client.config import Credentials
from roquet.pipeline.options.cluster import ClusterOptions

_readers: dict[tuple[ClusterOptions, str], TopicReader] = {}
_opening = Lock()


def topic_reader(cluster: ClusterOptions, group: str) -> TopicReader:
    """Open, and shared by everybody in this process who asks with the same options."""
    with _opening:
        reader = _readers.get((cluster, group))
        if reader is None:
            reader = _readers[cluster, group] = _opened(cluster, group)
        return reader


def close_readers() -> None:
    """Ends all connections; whoever asks again gets a new one."""
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
