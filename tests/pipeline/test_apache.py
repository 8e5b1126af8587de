"""The formats at real brokers of Apache, whose limits are as shipped: 32 messages a pull, a few MB
a request. One cluster of each version, and one that wants every request signed. A signed
4.9.7 has accounts of another form: see `test_apache_jobs.py`, and here with `ROQUET_LONG`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, functions as F  # noqa: N812

from roquet import Admin, Credentials, TopicReader, TopicSettings
from tests.support.apache import ApacheBroker, ApacheNameServer
from tests.support.apache_accounts import ACCESS_CONTROL, OPERATOR, USERS, write_accounts
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver
from tests.support.spark_streams import run_available
from tests.support.spark_workers import with_workers

ROW_COUNT: Final = 2000
QUEUE_COUNT: Final = 3

SIGNED: Final = [pytest.param((ApacheVersion.V5_5_0, True), id="5.5.0-signed")]
if os.environ.get("ROQUET_LONG"):
    SIGNED.append(pytest.param((ApacheVersion.V4_9_7, True), id="4.9.7-signed"))

# In the words of both.
NOT_SIGNED: Final = "(?i)accessKey|username cannot be null"

pytestmark = [
    pytest.mark.java,
    pytest.mark.full("the formats once more, with Apache's servers"),
]


class Place(NamedTuple):
    """A cluster, and how to reach it."""

    version: ApacheVersion
    name_server: str
    credentials: Credentials | None

    @property
    def options(self) -> dict[str, str]:
        named = {"nameServer": self.name_server}
        if self.credentials is None:
            return named
        access_key, secret_key = self.credentials.access_key, self.credentials.secret_key
        return named | {"accessKey": access_key, "secretKey": secret_key}

    def admin(self) -> Admin:
        return Admin(self.name_server, credentials=self.credentials)

    def message_count(self, topic: str) -> int:
        with TopicReader(self.name_server, credentials=self.credentials) as reader:
            return sum(each.max_offset for each in reader.bounds(reader.queues(topic)).values())


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((ApacheVersion.V4_9_7, False), id="4.9.7"),
        pytest.param((ApacheVersion.V5_5_0, False), id="5.5.0"),
        *SIGNED,
    ],
)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    version, is_signed = request.param
    directory = tmp_path_factory.mktemp("apache")
    configuration: Mapping[str, str] = {}
    if is_signed and version is ApacheVersion.V4_9_7:
        configuration = ACCESS_CONTROL
        write_accounts(directory / "broker")
    elif is_signed:
        configuration = USERS
    with (
        ApacheNameServer(version, directory / "names") as names,
        ApacheBroker(
            version,
            directory / "broker",
            names.address,
            configuration=configuration,
        ),
    ):
        yield Place(version, names.address, OPERATOR if is_signed else None)


@pytest.fixture(scope="module")
def mqadmin(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., list[list[str]]]]:
    """The words of what Apache's own tool prints, by lines."""
    with ExitStack() as running:
        drivers: dict[ApacheVersion, JavaDriver] = {}

        def said(version: ApacheVersion, *words: str) -> list[list[str]]:
            if version not in drivers:
                directory = tmp_path_factory.mktemp("mqadmin")
                drivers[version] = running.enter_context(JavaDriver(version, directory))
            return [line.split() for line in drivers[version].mqadmin(*words).output.splitlines()]

        yield said


_numbers = count(1)


@pytest.fixture
def topic(place: Place) -> str:
    name = f"orders-{next(_numbers)}"
    with place.admin() as admin:
        admin.create_topic(
            name, TopicSettings(read_queue_count=QUEUE_COUNT, write_queue_count=QUEUE_COUNT)
        )
    return name


def numbered(spark: SparkSession, row_count: int) -> DataFrame:
    return spark.range(0, row_count, 1, 2).selectExpr(
        "string(id) AS body",
        "CASE id % 3 WHEN 0 THEN 'Aa' WHEN 1 THEN 'BB' END AS tags",
        "concat('key-', id) AS keys",
        "map('number', string(id)) AS properties",
    )


def write(frame: DataFrame, place: Place, topic: str, row_count: int, **more: str) -> None:
    """Returns when everything can be read: Apache's brokers tell queues a moment later."""
    options = place.options | {"topic": topic} | more
    writer = frame.write.format("rocketmq").options(**options).mode("append")
    with_workers(writer.save)
    wait_until(lambda: place.message_count(topic) >= row_count)


def read(spark: SparkSession, place: Place, topic: str, **more: str) -> list[Row]:
    frame = spark.read.format("rocketmq").options(**place.options, topic=topic, **more)
    return with_workers(lambda: frame.load().collect())


def test_rows_arrive_whole_and_filtered_by_tags_with_equal_hashes(
    spark: SparkSession, place: Place, topic: str
) -> None:
    write(numbered(spark, ROW_COUNT), place, topic, ROW_COUNT)
    found = sorted(read(spark, place, topic), key=lambda row: int(row.body))
    assert [int(row.body) for row in found] == [*range(ROW_COUNT)]
    for number, row in enumerate(found):
        assert row.tags == ("Aa", "BB", None)[number % 3]
        assert row["keys"] == f"key-{number}"
        assert row.properties["number"] == str(number)
        assert row.queueId < QUEUE_COUNT
    chosen = read(spark, place, topic, tagExpression="BB")
    assert sorted(int(row.body) for row in chosen) == [*range(1, ROW_COUNT, 3)]


def test_a_write_that_is_run_again_is_not_done_twice(
    spark: SparkSession, place: Place, topic: str
) -> None:
    options = {"deliveryMode": "idempotent", "idColumn": "body", "writeId": f"{topic}-once"}
    frame = numbered(spark, ROW_COUNT)
    for _ in range(2):
        write(frame, place, topic, ROW_COUNT, **options)
    found = read(spark, place, topic)
    assert sorted(int(row.body) for row in found) == [*range(ROW_COUNT)]


def test_a_stream_is_exact_over_a_restart_and_tools_of_apache_see_its_progress(
    spark: SparkSession,
    place: Place,
    topic: str,
    tmp_path: Path,
    mqadmin: Callable[..., list[list[str]]],
) -> None:
    group = f"{topic}-query"
    checkpoint = tmp_path / "checkpoint"

    def stream(**more: str) -> DataFrame:
        options = place.options | {"topic": topic, "groupId": group}
        options |= {"startingOffsets": "earliest"} | more
        return spark.readStream.format("rocketmq").options(**options).load()

    write(numbered(spark, ROW_COUNT), place, topic, ROW_COUNT)
    first = run_available(stream(maxOffsetsPerTrigger="900"), checkpoint)
    write(numbered(spark, 10), place, topic, ROW_COUNT + 10)
    second = run_available(stream(), checkpoint)
    assert [len(batch) for batch in first] == [900, 900, 200]
    assert sum(map(len, second)) == 10
    rows = [row for batch in (*first, *second) for row in batch]
    assert len({(row.queueId, row.queueOffset) for row in rows}) == ROW_COUNT + 10
    with place.admin() as admin:
        queues = [each for each in admin.progress(group).queues if each.queue.topic == topic]
    assert sum(each.consumer_offset or 0 for each in queues) == ROW_COUNT + 10
    assert {each.lag for each in queues} == {0}
    if place.credentials is None:
        # Its own configuration file would have to sign for it.
        lines = mqadmin(place.version, "consumerProgress", "-n", place.name_server, "-g", group)
        offsets = [line for line in lines if line[:1] == [topic]]
        assert sum(int(line[4]) for line in offsets) == ROW_COUNT + 10
        assert {int(line[5]) for line in offsets} == {0}


@pytest.mark.parametrize("place", SIGNED, indirect=True)
def test_an_unsigned_request_is_refused(spark: SparkSession, place: Place, topic: str) -> None:
    unsigned = Place(place.version, place.name_server, None)
    with pytest.raises(PySparkException, match=NOT_SIGNED):
        read(spark, unsigned, topic, retryTimeout="1s")
    frame = numbered(spark, 1).select(F.col("body"))
    with pytest.raises(PySparkException, match=NOT_SIGNED):
        write(frame, unsigned, topic, 1, retryTimeout="1s")
