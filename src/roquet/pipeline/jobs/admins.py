"""Admins of the clusters that jobs ask about topics and groups."""

from collections.abc import Mapping

from roquet.client.blocking.admin import Admin
from roquet.pipeline.connections import credentials_of, tls_of
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import read_options


def cluster_admin(brokers: Mapping[str, str]) -> Admin:
    """To be opened. `brokers` are options of format `rocketmq` that reach them. Raises BadOption,
    and what the client raises.
    """
    cluster = read_options(ClusterOptions, brokers)
    return Admin(
        cluster.name_server,
        namespace=cluster.namespace,
        credentials=credentials_of(cluster),
        tls=tls_of(cluster),
        timeout_s=cluster.request_timeout.total_seconds(),
    )
