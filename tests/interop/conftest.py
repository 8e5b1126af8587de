"""Real Apache RocketMQ for tests: one name server, one broker and one Java client JVM for each
version, and a cluster of ours; started when the first test asks, shared by all of the session.

Tests keep out of each other's way by names: `new_name("topic")` is a name no other has.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import count
from typing import Protocol

import pytest

from roquet.protocol.frame import SERIALIZER_JSON
from tests.support.apache import ApacheBroker, ApacheCluster
from tests.support.client_servers import ClientServer, PopServer, client_server
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaProducer, JavaPullConsumer
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurBroker, OurNameServer, Ours, our_cluster
from tests.support.topics import create_topic


class _Logging(Protocol):
    def log_tail(self) -> str: ...


_RUNNING = pytest.StashKey[list[_Logging]]()


@pytest.fixture(scope="session")
def apache_clusters(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Callable[[ApacheVersion], ApacheCluster]]:
    """The running cluster of a version."""
    with ExitStack() as running:

        @cache
        def cluster(version: ApacheVersion) -> ApacheCluster:
            directory = tmp_path_factory.mktemp(f"apache-{version}")
            started = running.enter_context(ApacheCluster(version, directory))
            pytestconfig.stash.setdefault(_RUNNING, []).extend(started.servers)
            return started

        yield cluster


@pytest.fixture(scope="session")
def java_drivers(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Callable[[ApacheVersion], JavaDriver]]:
    """The JVM with the Java clients of a version."""
    with ExitStack() as running:

        @cache
        def driver(version: ApacheVersion) -> JavaDriver:
            directory = tmp_path_factory.mktemp(f"java-{version}")
            started = running.enter_context(JavaDriver(version, directory))
            pytestconfig.stash.setdefault(_RUNNING, []).append(started)
            return started

        yield driver


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Ours]:
    """A name server and a broker of ours."""
    with our_cluster(tmp_path_factory.mktemp("roquet")) as cluster:
        pytestconfig.stash.setdefault(_RUNNING, []).append(cluster)
        yield cluster


@pytest.fixture(params=list(ApacheVersion), ids=lambda version: f"server-{version}")
def apache(
    request: pytest.FixtureRequest, apache_clusters: Callable[[ApacheVersion], ApacheCluster]
) -> ApacheCluster:
    """A name server and a broker; the test runs once for each version."""
    return apache_clusters(request.param)


@pytest.fixture(params=[*ApacheVersion, None], ids=lambda version: f"server-{version or 'ours'}")
def server(request: pytest.FixtureRequest) -> ClientServer:
    """For tests of our clients: Apache's servers of each version, and ours."""
    return client_server(request)


@pytest.fixture(scope="session", params=["ours", "Apache"])
def pop_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PopServer]:
    """For tests of pops: our broker, and Apache's of the one version that can redeliver them."""
    directory = tmp_path_factory.mktemp("popping")
    with OurNameServer(directory / "names") as names:
        broker: OurBroker | ApacheBroker
        if request.param == "ours":
            broker = OurBroker(directory / "broker", names.address)
        else:
            broker = ApacheBroker(
                ApacheVersion.V5_5_0,
                directory / "broker",
                names.address,
                configuration={"timerWheelEnable": "true"},
            )
        with broker:
            yield PopServer(names.address, broker.address, broker.broker_name)


@pytest.fixture
def pop_topic(pop_server: PopServer, new_name: Callable[[str], str]) -> str:
    """A topic of one queue."""
    topic = new_name("topic")
    create_topic(pop_server.broker, topic)
    return topic


@pytest.fixture(params=list(ApacheVersion), ids=lambda version: f"client-{version}")
def java(
    request: pytest.FixtureRequest, java_drivers: Callable[[ApacheVersion], JavaDriver]
) -> JavaDriver:
    """Java clients; the test runs once for each version."""
    return java_drivers(request.param)


_numbers = count(1)


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Makes names of topics, groups and brokers that no other test has."""
    return lambda kind: f"{kind}-{next(_numbers)}"


@pytest.fixture
def new_topic(apache: ApacheCluster, new_name: Callable[[str], str]) -> Callable[..., str]:
    """Makes topics on Apache's broker."""

    def make(queue_count: int = 1, serializer: int = SERIALIZER_JSON) -> str:
        topic = new_name("topic")
        create_topic(apache.broker.address, topic, queue_count, serializer=serializer)
        return topic

    return make


@pytest.fixture
def our_topic(ours: Ours, new_name: Callable[[str], str]) -> Callable[..., str]:
    """Makes topics on our broker."""

    def make(queue_count: int = 1, permission: int = 6) -> str:
        topic = new_name("topic")
        create_topic(ours.broker, topic, queue_count, permission=permission)
        return topic

    return make


@pytest.fixture
def names(ours: Ours) -> str:
    """The address of our name server."""
    return ours.name_server


@pytest.fixture
def producer(
    java: JavaDriver, names: str, new_name: Callable[[str], str]
) -> Iterator[JavaProducer]:
    with JavaProducer(java, names, new_name("producers")) as started:
        yield started


@pytest.fixture
def puller(
    java: JavaDriver, names: str, new_name: Callable[[str], str]
) -> Iterator[JavaPullConsumer]:
    with JavaPullConsumer(java, names, new_name("pullers")) as started:
        yield started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the last output of the processes it may have used."""
    report = yield
    if report.failed:
        for process in item.config.stash.get(_RUNNING, []):
            report.sections.append((f"log of {process}", process.log_tail()))
    return report
