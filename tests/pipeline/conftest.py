"""One Spark session for all tests of this folder, which run in one process one after the other."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from roquet.testing.blocking import BlockingCluster
from tests.support.spark_session import spark_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A session takes half a minute and a gigabyte: there must not be two of them."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Both formats are registered."""
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    """A name server and a broker in this process; tasks connect to `cluster.name_server`."""
    with BlockingCluster() as running:
        yield running
