"""The three servers that one contract for clients runs against: ours and both of Apache's."""

from typing import NamedTuple

import pytest

from tests.support.apache import ApacheCluster
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurCluster


class ClientServer(NamedTuple):
    name_server: str
    broker: str
    # Java clients of this version are the other side.
    java_version: ApacheVersion
    is_apache: bool


class PopServer(NamedTuple):
    name_server: str
    broker: str
    # Receipts have it.
    broker_name: str


def client_server(request: pytest.FixtureRequest) -> ClientServer:
    """By the parameter of a fixture: a version of Apache, or None for ours."""
    version: ApacheVersion | None = request.param
    if version is None:
        ours: OurCluster = request.getfixturevalue("ours")
        return ClientServer(ours.name_server, ours.broker, ApacheVersion.V5_5_0, is_apache=False)
    cluster: ApacheCluster = request.getfixturevalue("apache_clusters")(version)
    return ClientServer(
        cluster.name_server.address, cluster.broker.address, version, is_apache=True
    )
