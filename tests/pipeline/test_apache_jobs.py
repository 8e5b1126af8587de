"""The jobs at a real broker of Apache that wants every request signed."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from roquet import (
    Admin,
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SendReceipt,
    StartFrom,
    TopicReader,
    TopicSettings,
)
from roquet.protocol.messages.record import split_records
from tests.support.apache import ApacheBroker, ApacheNameServer
from tests.support.apache_accounts import ACCESS_CONTROL, OPERATOR, write_accounts
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.job_commands import JobCommands
from tests.support.lake_rows import found_by_arrow

COUNT = 100
ORDERS = "orders"
AGAIN = "orders-again"
GROUP = "billing"
BAD, SLOW = b"order 3", b"order 7"

pytestmark = [pytest.mark.java, pytest.mark.full("every job once more, with Apache's servers")]


class Shop(NamedTuple):
    """A broker with orders: one cannot be billed, one is billed at the second attempt."""

    name_server: str
    store: Path
    broker_name: str
    receipts: list[SendReceipt]

    @property
    def topic(self) -> tuple[str, ...]:
        return "-n", self.name_server, "--topic", ORDERS

    @property
    def sent(self) -> Counter[tuple[int, int]]:
        return Counter((each.queue.queue_id, each.queue_offset) for each in self.receipts)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    directory = tmp_path_factory.mktemp("signed")
    write_accounts(directory / "broker")
    version = ApacheVersion.V4_9_7
    configuration = {**ACCESS_CONTROL, "traceTopicEnable": "true"}
    with (
        ApacheNameServer(version, directory / "names") as names,
        ApacheBroker(
            version, directory / "broker", names.address, configuration=configuration
        ) as broker,
    ):
        with Admin(names.address, credentials=OPERATOR) as admin:
            for topic in (ORDERS, AGAIN):
                admin.create_topic(topic, TopicSettings(read_queue_count=2, write_queue_count=2))
        receipts = _billed(names.address)
        yield Shop(names.address, broker.store_directory, broker.broker_name, receipts)


def _billed(name_server: str) -> list[SendReceipt]:
    done: set[bytes] = set()

    def bill(message: ReceivedMessage) -> None:
        if message.body == BAD:
            raise DeadLetter("no such account")
        if message.body == SLOW and not message.retry_count:
            raise RetryLater(delay_level=1)
        done.add(message.body)

    bodies = [b"order %d" % number for number in range(COUNT)]
    with (
        Admin(name_server, credentials=OPERATOR) as admin,
        PushConsumer(
            name_server,
            GROUP,
            bill,
            credentials=OPERATOR,
            trace=True,
            start_from=StartFrom.FIRST,
        ) as consumer,
        Producer(name_server, "sellers", credentials=OPERATOR, trace=True) as producer,
    ):
        consumer.subscribe(ORDERS)
        receipts = [
            producer.send(Message(ORDERS, body, keys=(body.decode().replace(" ", "-"),)))
            for body in bodies
        ]
        wait_until(lambda: len(done) == COUNT - 1)
        wait_until(lambda: len(admin.dead_letters(GROUP)) == 1)
    return receipts


@pytest.fixture(scope="module")
def command(spark: SparkSession) -> Iterator[JobCommands]:
    """Signed by what the environment has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROQUET_ACCESS_KEY", OPERATOR.access_key)
        patch.setenv("ROQUET_SECRET_KEY", OPERATOR.secret_key)
        yield JobCommands(spark, patch)


class Ingested(NamedTuple):
    lake: Path
    report: dict[str, Any]


@pytest.fixture(scope="module")
def ingested(
    command: JobCommands, shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> Ingested:
    """Signed by what is given."""
    directory = tmp_path_factory.mktemp("ingested")
    secret = directory / "secret"
    secret.write_text(f"{OPERATOR.secret_key}\n")
    signed = ("--access-key", OPERATOR.access_key, "--secret-key-file", secret)
    report = command.json(
        *("ingest", *shop.topic, "--available-now", "--group", "keepers"),
        *signed,
        *("--lake", directory / "lake", "--checkpoint", directory / "checkpoint"),
    )
    return Ingested(directory / "lake", report)


def test_ingest_fills_a_lake(ingested: Ingested, shop: Shop) -> None:
    assert ingested.report["messages"] == COUNT
    assert found_by_arrow(ingested.lake) == shop.sent


def test_backfill_reads_the_files_of_the_broker(
    command: JobCommands, shop: Shop, tmp_path: Path
) -> None:
    report = command.json(
        *("backfill", shop.store, "--topic", ORDERS, "--broker-name", shop.broker_name),
        *("--lake", tmp_path / "lake"),
    )
    assert (report["messages"], report["missing"]) == (COUNT, 0)
    assert found_by_arrow(tmp_path / "lake") == shop.sent


def test_audit_finds_lake_and_group_right(
    command: JobCommands, shop: Shop, ingested: Ingested
) -> None:
    report = command.json("audit", *shop.topic, "--lake", ingested.lake, "--group", GROUP)
    assert [(side["found"], side["missing"]) for side in report["sides"]] == [(COUNT, 0)] * 2


def test_export_writes_some(command: JobCommands, shop: Shop, tmp_path: Path) -> None:
    where = ("--where", "body < 'order 2'", "--columns", "body", "--body", "text")
    command.json("export", *shop.topic, *where, "--to", tmp_path / "files", "--format", "json")
    lines = "".join(each.read_text() for each in (tmp_path / "files").glob("*.json")).splitlines()
    expected = sorted(f"order {each}" for each in range(COUNT) if f"order {each}" < "order 2")
    assert sorted(json.loads(line)["body"] for line in lines) == expected


def test_replay_sends_each_once(command: JobCommands, shop: Shop) -> None:
    words = ("replay", *shop.topic, "--to", AGAIN, "--yes", "--write-id", "once")
    for _ in range(2):
        assert command.json(*words)["messages"] == COUNT
    with TopicReader(shop.name_server, credentials=OPERATOR) as reader:
        queues = reader.queues(AGAIN)
        # Apache's brokers tell queues a moment later.
        wait_until(lambda: sum(each[1] for each in reader.bounds(queues).values()) >= COUNT)
        found = Counter(
            message.body
            for queue, (start, end) in reader.bounds(queues).items()
            for chunk in reader.records(queue, start, end)
            for message in split_records(chunk.data)
        )
    assert found == Counter(b"order %d" % number for number in range(COUNT))


def test_dead_letters_are_reported(command: JobCommands, shop: Shop) -> None:
    report = command.json("dlq-report", "-n", shop.name_server)
    assert report["messages"] == 1
    assert report["topics"] == [{"group": GROUP, "topic": ORDERS, "messages": 1}]


def test_an_unsigned_request_is_reported_in_one_line(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROQUET_ACCESS_KEY", raising=False)
    monkeypatch.delenv("ROQUET_SECRET_KEY", raising=False)
    finished = roquet("spark", "dlq-report", "-n", shop.name_server)
    assert finished.exit_code == 1
    # The first one is about the start of Spark.
    assert finished.stderr.count("\n") == 2
