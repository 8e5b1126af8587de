"""`replay` of dead letters and of a quarantine: each message to its own topic, once."""

import shlex
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roquet import (
    Admin,
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    StartFrom,
    TopicReader,
)
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.job_commands import JobCommands

COUNT = 12


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    return JobCommands(spark, monkeypatch)


def received(cluster: BlockingCluster, topic: str) -> Counter[tuple[bytes, str | None]]:
    with TopicReader(cluster.name_server) as reader:
        return Counter((each.body, each.tags) for each in reader.messages(topic))


def bury(cluster: BlockingCluster, group: str, topic: str, count: int) -> None:
    """A consumer gives up all messages of a topic."""

    def give_up(_: ReceivedMessage) -> None:
        raise DeadLetter("no such account")

    with (
        Admin(cluster.name_server) as admin,
        PushConsumer(cluster.name_server, group, give_up, start_from=StartFrom.FIRST) as consumer,
    ):
        consumer.subscribe(topic)
        wait_until(lambda: len(admin.dead_letters(group)) == count)


def test_dead_letters_go_to_their_own_topics_once(
    command: JobCommands, cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [cluster.new_topic("orders", queues=2), cluster.new_topic("bills", queues=2)]
    sent = {
        topic: Counter((b"%s %d" % (topic.encode(), n), "new") for n in range(COUNT))
        for topic in topics
    }
    with Producer(cluster.name_server, "sellers") as producer:
        for topic, messages in sent.items():
            producer.send_many(Message(topic, body, tags=tag) for body, tag in messages)
    for topic, group in zip(topics, ("shipping", "billing"), strict=True):
        bury(cluster, group, topic, COUNT)
    words = ("spark", "replay", "-n", cluster.name_server, "--dead-letters")
    monkeypatch.setattr("sys.argv", ["roquet", *words])
    shown = command.json(*words[1:])
    assert not shown["is_sent"]
    assert (shown["messages"], shown["without_topic"]) == (2 * COUNT, 0)
    assert {row["to"] for row in shown["by_topic"]} == set(topics)
    assert [received(cluster, topic) for topic in topics] == list(sent.values())
    for _ in range(2):
        assert command.json(*shlex.split(shown["command"])[2:])["messages"] == 2 * COUNT
        for topic, messages in sent.items():
            assert received(cluster, topic) == messages + messages
    monkeypatch.setattr("sys.argv", ["roquet", *words, "--group", "billing"])
    assert command.json(*words[1:], "--group", "billing")["messages"] == COUNT


@pytest.mark.full("what the replay of dead letters does, once more")
def test_without_a_topic_to_go_to_nothing_is_sent(
    command: JobCommands, cluster: BlockingCluster
) -> None:
    gone, there = cluster.new_topic("gone", queues=1), cluster.new_topic("there", queues=1)
    with Producer(cluster.name_server, "sellers") as producer:
        for topic in (gone, there):
            producer.send(Message(topic, b"one"))
            bury(cluster, f"{topic}-readers", topic, 1)
    with Admin(cluster.name_server) as admin:
        admin.delete_topic(gone)
    finished = command("replay", "-n", cluster.name_server, "--dead-letters", "--yes")
    assert finished.exit_code == 1
    assert "no such topic, or none to write to: gone." in finished.stderr.splitlines()[-1]
    assert received(cluster, there).total() == 1
    rest = ("--dead-letters", "--where", "properties['RETRY_TOPIC'] = 'there'", "--yes")
    assert command.json("replay", "-n", cluster.name_server, *rest)["messages"] == 1
    assert received(cluster, there).total() == 2


@pytest.mark.full("fills a lake")
def test_the_quarantine_of_a_lake_goes_to_its_own_topics_once(
    command: JobCommands, spark: SparkSession, cluster: BlockingCluster, tmp_path: Path
) -> None:
    topics = [cluster.new_topic(queues=2), cluster.new_topic(queues=2)]
    with Producer(cluster.name_server, "sellers") as producer:
        for number in range(COUNT):
            body = b'{"id": %d}' % number if number % 3 else b"bad %d" % number
            producer.send(Message(topics[number % 2], body, tags="new"))
    plan = IngestPlan(
        source={"nameServer": cluster.name_server, "topics": ",".join(topics)},
        lake=tmp_path / "lake",
        checkpoint=tmp_path / "checkpoint",
        available_now=True,
        bodies=BodyOptions(json_schema="id bigint"),
    )
    assert ingest(spark, plan).quarantined == COUNT // 3
    before = [received(cluster, topic) for topic in topics]
    words = ("replay", "-n", cluster.name_server, "--lake", tmp_path / "lake", "--quarantine")
    assert command.json(*words)["messages"] == COUNT // 3
    for _ in range(2):
        assert command.json(*words, "--yes")["messages"] == COUNT // 3
        for index, topic in enumerate(topics):
            again = Counter((b"bad %d" % n, "new") for n in range(index, COUNT, 2) if n % 3 == 0)
            assert received(cluster, topic) == before[index] + again
