"""Real Apache RocketMQ for tests: one name server, one broker and one Java client JVM for each
version, started when the first test asks and shared by all tests of the session.

Tests keep out of each other's way by names: `new_name("topic")` is a name nobody else has.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import count
from typing import Protocol

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.headers.topics import CreateTopicHeader
from tests.support.apache import ApacheCluster
from tests.support.blocking_peer import BlockingPeer
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver


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


@pytest.fixture(params=list(ApacheVersion), ids=lambda version: f"server-{version}")
def apache(
    request: pytest.FixtureRequest, apache_clusters: Callable[[ApacheVersion], ApacheCluster]
) -> ApacheCluster:
    """A name server and a broker; the test runs once for each version."""
    return apache_clusters(request.param)


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
    """Makes topics on the broker, which tells the name server before it answers."""

    def make(queue_count: int = 1, serializer: int = SERIALIZER_JSON) -> str:
        topic = new_name("topic")
        header = CreateTopicHeader(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queue_count,
            write_queue_nums=queue_count,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        with BlockingPeer(apache.broker.address, serializer) as broker:
            reply = broker.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return topic

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows what the processes it may have used said last."""
    report = yield
    if report.failed:
        for process in item.config.stash.get(_RUNNING, []):
            report.sections.append((f"log of {process}", process.log_tail()))
    return report
