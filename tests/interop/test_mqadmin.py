"""Apache's command line tool, of both releases, against our servers.

mqadmin exits with 0 whatever becomes of a command, except when it cannot read the command line:
then it ends its JVM, which is the driver's here, and `DriverGone` is raised. So a command that
returns has exited with 0; that it has failed is found in its complaints.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPushConsumer,
    Outgoing,
    Sent,
    Subscription,
    bodies,
)
from tests.support.java_driver import AdminOutput, JavaDriver
from tests.support.our_cluster import Ours, our_cluster

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]

FAILED = "SubCommandException"


class Admin:
    """mqadmin of one release with our name server."""

    def __init__(self, java: JavaDriver, cluster: Ours) -> None:
        self.version = java.version
        self.cluster = cluster
        self._java = java

    def said(self, command: str, *words: str) -> AdminOutput:
        return self._java.mqadmin(command, "-n", self.cluster.name_server, *words)

    def run(self, command: str, *words: str) -> str:
        """What a command that succeeds prints."""
        said = self.said(command, *words)
        assert FAILED not in said.complaints, said.complaints
        return said.output

    def at_broker(self, command: str, *words: str) -> str:
        """The same for a command that is for one broker."""
        return self.run(command, "-b", self.cluster.broker, *words)

    def table(self, command: str, *words: str) -> list[list[str]]:
        """The printed lines, each split at blanks."""
        return [line.split() for line in self.run(command, *words).splitlines()]

    def settings(self, command: str, *words: str) -> dict[str, str]:
        """What is printed as `name = value`."""
        pairs = (line.partition("=") for line in self.run(command, *words).splitlines())
        return {name.strip(): value.strip() for name, sign, value in pairs if sign}

    def complaints(self, command: str, *words: str) -> str:
        """What is reported about a command that fails."""
        said = self.said(command, *words)
        assert FAILED in said.complaints, said.output
        return said.complaints


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    """Servers of these tests alone, because commands change all of a broker."""
    with our_cluster(tmp_path_factory.mktemp("administrated")) as started:
        yield started


@pytest.fixture
def names(cluster: Ours) -> str:
    return cluster.name_server


@pytest.fixture
def admin(java: JavaDriver, cluster: Ours) -> Admin:
    return Admin(java, cluster)


@pytest.fixture
def new_topic(admin: Admin, new_name: NewName) -> Callable[..., str]:
    """Makes topics with mqadmin."""

    def make(queue_count: int = 1) -> str:
        topic = new_name("topic")
        queues = ("-r", str(queue_count), "-w", str(queue_count))
        assert "success" in admin.at_broker("updateTopic", "-t", topic, *queues)
        return topic

    return make


class Filled(NamedTuple):
    """A topic of one queue with three messages."""

    topic: str
    sends: list[Sent]


@pytest.fixture
def filled(producer: JavaProducer, new_topic: Callable[..., str]) -> Filled:
    topic = new_topic()
    properties = {"KEYS": "invoice", "TAGS": "red"}
    return Filled(
        topic,
        [
            producer.send(Outgoing(topic, b"body %d" % number, properties=properties))
            for number in range(3)
        ],
    )


@pytest.fixture
def consumer(
    java: JavaDriver, names: str, new_name: NewName, filled: Filled
) -> Iterator[JavaPushConsumer]:
    """A consumer that has taken the three messages."""
    group = new_name("group")
    with JavaPushConsumer(java, names, group, Subscription(filled.topic)) as started:
        assert len(started.received(3)) == 3
        yield started


@pytest.fixture
def gone_group(
    java: JavaDriver, names: str, new_name: NewName, filled: Filled, producer: JavaProducer
) -> str:
    """A group that has taken the three messages, and was gone when two more came."""
    group = new_name("group")
    with JavaPushConsumer(java, names, group, Subscription(filled.topic)) as consumer:
        assert len(consumer.received(3)) == 3
    for _ in range(2):
        producer.send(Outgoing(filled.topic, b"late"))
    return group


def has_line(lines: list[list[str]], *words: str) -> bool:
    """Whether a line starts so."""
    return list(words) in [line[: len(words)] for line in lines]


# The cluster


def test_cluster_list(admin: Admin) -> None:
    cluster = admin.cluster
    broker = (cluster.cluster_name, cluster.broker_name)
    assert has_line(admin.table("clusterList"), *broker, "0", cluster.broker, "V4_9_8")
    assert has_line(admin.table("clusterList", "-m"), *broker)


def test_broker_status(admin: Admin, filled: Filled) -> None:
    printed = admin.at_broker("brokerStatus")
    values = dict(re.findall(r"^(\S+?)\s*: (.*)$", printed, re.MULTILINE))
    assert int(values["commitLogMaxOffset"]) > 0
    assert int(values["msgPutTotalTodayNow"]) >= 3
    assert values["brokerVersionDesc"] == "V4_9_8"
    assert len(values["putTps"].split()) == 3


def test_get_and_update_broker_config(admin: Admin) -> None:
    def reserved_hours() -> str:
        broker = ("-b", admin.cluster.broker)
        return admin.settings("getBrokerConfig", *broker)["fileReservedTime"]

    assert reserved_hours() == "72"
    for hours in ("48", "72"):
        said = admin.at_broker("updateBrokerConfig", "-k", "fileReservedTime", "-v", hours)
        assert "update broker config success" in said
        assert reserved_hours() == hours


def test_update_broker_config_does_not_change_paths(admin: Admin) -> None:
    broker = ("-b", admin.cluster.broker)
    admin.complaints("updateBrokerConfig", *broker, "-k", "storePathRootDir", "-v", "elsewhere")
    assert "elsewhere" not in admin.at_broker("getBrokerConfig")


def test_get_namesrv_config(admin: Admin) -> None:
    port = admin.cluster.name_server.rpartition(":")[2]
    assert admin.settings("getNamesrvConfig")["listenPort"] == port


def test_update_and_delete_kv_config(admin: Admin, new_name: NewName) -> None:
    topic = new_name("topic")
    key = ("-s", "ORDER_TOPIC_CONFIG", "-k", topic)
    get = ("updateOrderConf", "-t", topic, "-m", "get")
    assert "success" in admin.run("updateKvConfig", *key, "-v", "broker-a:1")
    assert "orderConf=[broker-a:1]" in admin.run(*get)
    assert "success" in admin.run("deleteKvConfig", *key)
    assert "CODE: 22" in admin.complaints(*get)


def test_wipe_and_add_write_perm(admin: Admin, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    broker_name = admin.cluster.broker_name
    for command, permission in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        assert "OK" in admin.run(command, "-b", broker_name)
        route = "".join(admin.run("topicRoute", "-t", topic).split())
        assert f'"perm":{permission}' in route


def test_clean_expired_queues_and_unused_topics(admin: Admin, filled: Filled) -> None:
    for command in ("cleanExpiredCQ", "cleanUnusedTopic"):
        assert admin.at_broker(command).strip() == "success"
        assert admin.run(command, "-c", admin.cluster.cluster_name).strip() == "success"
    assert has_line(
        admin.table("topicStatus", "-t", filled.topic), admin.cluster.broker_name, "0", "0", "3"
    )


@pytest.mark.parametrize(
    ("command", "file", "members"),
    [
        ("exportConfigs", "configs.json", {"brokerConfigs", "clusterScale"}),
        ("exportMetadata", "metadata.json", {"topicConfigTable", "subscriptionGroupTable"}),
        ("exportMetrics", "metrics.json", {"evaluateReport", "totalData"}),
    ],
)
def test_exports(
    admin: Admin, filled: Filled, tmp_path: Path, command: str, file: str, members: set[str]
) -> None:
    cluster = ("-c", admin.cluster.cluster_name)
    assert "success" in admin.run(command, *cluster, "-f", str(tmp_path))
    assert members <= json.loads((tmp_path / file).read_text()).keys()


# Topics


def test_update_topic_of_a_cluster(admin: Admin, new_name: NewName) -> None:
    topic = new_name("topic")
    words = ("-c", admin.cluster.cluster_name, "-t", topic, "-r", "3", "-w", "2")
    assert "success" in admin.run("updateTopic", *words)
    route = "".join(admin.run("topicRoute", "-t", topic).split())
    assert '"readQueueNums":3' in route
    assert '"writeQueueNums":2' in route


def test_topic_list(admin: Admin, consumer: JavaPushConsumer, filled: Filled) -> None:
    assert {filled.topic, "TBW102", f"%RETRY%{consumer.group}"} <= set(
        admin.run("topicList").split()
    )
    with_groups = admin.table("topicList", "-c")
    assert has_line(with_groups, admin.cluster.cluster_name, filled.topic, consumer.group)


def test_topic_route(admin: Admin, new_topic: Callable[..., str]) -> None:
    route = "".join(admin.run("topicRoute", "-t", new_topic(2)).split())
    assert f'0:"{admin.cluster.broker}"' in route
    assert '"writeQueueNums":2' in route
    assert "CODE: 17" in admin.complaints("topicRoute", "-t", "absent")


def test_topic_status(admin: Admin, filled: Filled) -> None:
    status = admin.table("topicStatus", "-t", filled.topic)
    assert has_line(status, admin.cluster.broker_name, "0", "0", "3")


def test_topic_cluster_list(admin: Admin, filled: Filled) -> None:
    clusters = admin.run("topicClusterList", "-t", filled.topic).split()
    assert clusters == [admin.cluster.cluster_name]


def test_update_topic_perm(admin: Admin, filled: Filled) -> None:
    said = admin.at_broker("updateTopicPerm", "-t", filled.topic, "-p", "4")
    assert "from 6 to 4" in said
    assert '"perm":4' in "".join(admin.run("topicRoute", "-t", filled.topic).split())


def test_delete_topic(admin: Admin, filled: Filled) -> None:
    said = admin.run("deleteTopic", "-c", admin.cluster.cluster_name, "-t", filled.topic)
    assert said.count("success") == 2  # on the broker and on the name server
    assert filled.topic not in admin.run("topicList").split()


def test_allocate_queues(admin: Admin, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    said = admin.run("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2")
    shares = re.findall(r'"(10\.0\.0\.\d)":\[\{"brokerName":"broker-a","queueId":(\d)', said)
    assert {address for address, _ in shares} == {"10.0.0.1", "10.0.0.2"}
    assert {queue_id for _, queue_id in shares} == {"0", "1"}


def test_stats_all(admin: Admin, gone_group: str, filled: Filled) -> None:
    stats = admin.table("statsAll", "-t", filled.topic)
    assert has_line(stats, filled.topic, gone_group, "2")


# Groups


def test_update_and_delete_sub_group(admin: Admin, new_name: NewName) -> None:
    group = ("-g", new_name("group"))
    assert "success" in admin.at_broker("updateSubGroup", *group, "-r", "5", "-q", "2")
    settings = admin.settings("getConsumerConfig", *group)
    assert (settings["retryMaxTimes"], settings["retryQueueNums"]) == ("5", "2")
    assert "success" in admin.at_broker("deleteSubGroup", *group)
    assert "retryMaxTimes" not in admin.settings("getConsumerConfig", *group)


def test_update_sub_group_of_a_cluster(admin: Admin, new_name: NewName) -> None:
    group = ("-g", new_name("group"))
    cluster = ("-c", admin.cluster.cluster_name)
    assert "success" in admin.run("updateSubGroup", *cluster, *group, "-s", "false")
    assert admin.settings("getConsumerConfig", *group)["consumeEnable"] == "false"
    assert "success" in admin.run("deleteSubGroup", *cluster, *group)


def test_consumer_progress(admin: Admin, gone_group: str, filled: Filled) -> None:
    of_group = admin.table("consumerProgress", "-g", gone_group)
    assert has_line(of_group, filled.topic, admin.cluster.broker_name, "0", "5", "3", "2")
    assert has_line(admin.table("consumerProgress"), gone_group, "0")


def test_consumer_connection(admin: Admin, consumer: JavaPushConsumer, filled: Filled) -> None:
    said = admin.run("consumerConnection", "-g", consumer.group)
    assert f"@{consumer.handle} " in said
    assert has_line([line.split() for line in said.splitlines()], filled.topic, "*")
    assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in said


def test_consumer_connection_of_a_group_that_is_gone(admin: Admin, gone_group: str) -> None:
    assert "CODE: 206" in admin.complaints("consumerConnection", "-g", gone_group)


def test_producer_connection(
    admin: Admin, java: JavaDriver, names: str, new_name: NewName, filled: Filled
) -> None:
    # A producer that has sent nothing yet is unknown to the broker before its next heartbeat.
    options = {"heartbeatBrokerInterval": 100}
    group = new_name("producers")
    with JavaProducer(java, names, group, options=options) as producer:
        producer.send(Outgoing(filled.topic, b"x"))
        words = ("producerConnection", "-g", group, "-t", filled.topic)
        wait_until(lambda: f"@{producer.handle} " in admin.said(*words).output)


def test_consumer_status(admin: Admin, consumer: JavaPushConsumer) -> None:
    said = admin.run("consumerStatus", "-g", consumer.group)
    assert f"@{consumer.handle} " in said
    assert "Rebalance OK" in said


def test_consumer_status_of_one_client(
    admin: Admin, consumer: JavaPushConsumer, filled: Filled
) -> None:
    connections = admin.run("consumerConnection", "-g", consumer.group)
    found = re.search(rf"^(\S+@{consumer.handle}) ", connections, re.MULTILINE)
    assert found is not None
    said = admin.run("consumerStatus", "-g", consumer.group, "-i", found[1])
    assert "PROP_CONSUME_TYPE" in said
    assert filled.topic in said


def test_broker_consume_stats(admin: Admin, gone_group: str, filled: Filled) -> None:
    lines = [line.split() for line in admin.at_broker("brokerConsumeStats").splitlines()]
    broker_name = admin.cluster.broker_name
    assert has_line(lines, filled.topic, gone_group, broker_name, "0", "5", "3", "2")


def test_reset_offset_by_time_of_a_group_that_is_gone(
    admin: Admin, gone_group: str, filled: Filled
) -> None:
    group = ("-g", gone_group, "-t", filled.topic)
    admin.run("resetOffsetByTime", *group, "-s", "0")
    assert _consumer_offset(admin, gone_group, filled.topic) == 0
    admin.run("skipAccumulatedMessage", *group)
    assert _consumer_offset(admin, gone_group, filled.topic) == 5


def test_reset_offset_by_time_of_a_group_that_is_connected(
    admin: Admin, java: JavaDriver, names: str, gone_group: str, filled: Filled
) -> None:
    with JavaPushConsumer(java, names, gone_group, Subscription(filled.topic)) as consumer:
        assert bodies(consumer.received(2)) == [b"late", b"late"]
        admin.run("resetOffsetByTime", "-g", gone_group, "-t", filled.topic, "-s", "0")
        again = sorted(bodies(consumer.received(5)))
    assert again == [b"body 0", b"body 1", b"body 2", b"late", b"late"]


def test_clone_group_offset(
    admin: Admin, new_name: NewName, gone_group: str, filled: Filled
) -> None:
    clone = new_name("group")
    admin.at_broker("updateSubGroup", "-g", clone)
    words = ("-s", gone_group, "-d", clone, "-t", filled.topic, "-o", "true")
    assert "clone group offset success" in admin.run("cloneGroupOffset", *words)
    # mqadmin asks for the retries of a group first, and these have no topic before a heartbeat.
    lines = [line.split() for line in admin.at_broker("brokerConsumeStats").splitlines()]
    assert has_line(lines, filled.topic, clone, admin.cluster.broker_name, "0", "5", "3", "2")


def _consumer_offset(admin: Admin, group: str, topic: str) -> int | None:
    """None for a group that has none yet, which is a failure to 4.9.7."""
    lines = admin.said("consumerProgress", "-g", group).output.splitlines()
    return next((int(line.split()[4]) for line in lines if line.split()[:1] == [topic]), None)


# Messages


def test_query_message_by_key(admin: Admin, filled: Filled) -> None:
    def found_ids() -> set[str]:
        lines = admin.table("queryMsgByKey", "-t", filled.topic, "-k", "invoice")
        return {line[0] for line in lines[1:] if line}

    wait_until(lambda: found_ids() == {sent.message_id for sent in filled.sends})


def test_query_message_by_unique_key(admin: Admin, filled: Filled) -> None:
    sent = filled.sends[1]
    said = admin.run("queryMsgByUniqueKey", "-t", filled.topic, "-i", sent.message_id)
    assert _described_body(said) == b"body 1"


def test_query_message_by_id(admin: Admin, filled: Filled) -> None:
    sent = filled.sends[1]
    assert sent.offset_id is not None
    words = ["-i", sent.offset_id]
    if admin.version is ApacheVersion.V5_5_0:
        words += ["-t", filled.topic]
    assert _described_body(admin.run("queryMsgById", *words)) == b"body 1"


def test_query_message_by_offset(admin: Admin, filled: Filled) -> None:
    place = ("-t", filled.topic, "-b", admin.cluster.broker_name, "-i", "0", "-o", "1")
    assert _described_body(admin.run("queryMsgByOffset", *place)) == b"body 1"


def _described_body(said: str) -> bytes:
    """mqadmin writes the body of a message to a file, and prints where."""
    assert re.search(r"^Tags:\s+\[red\]$", said, re.MULTILINE)
    found = re.search(r"^Message Body Path:\s+(.*)$", said, re.MULTILINE)
    assert found is not None
    return Path(found[1]).read_bytes()


def test_print_messages(admin: Admin, filled: Filled) -> None:
    said = admin.run("printMsg", "-t", filled.topic, "-d", "true")
    assert re.findall(r"BODY: (.*)$", said, re.MULTILINE) == ["body 0", "body 1", "body 2"]
    nothing = admin.run("printMsg", "-t", filled.topic, "-d", "true", "-s", "blue")
    assert "BODY" not in nothing


def test_print_messages_by_queue(admin: Admin, filled: Filled) -> None:
    queue = ("-t", filled.topic, "-a", admin.cluster.broker_name, "-i", "0")
    said = admin.run("printMsgByQueue", *queue, "-p", "true", "-d", "true", "-f", "true")
    assert re.findall(r"BODY: (.*)$", said, re.MULTILINE) == ["body 0", "body 1", "body 2"]
    assert re.search(r"Tag: red\s+Count: 3", said)


def test_print_messages_of_a_time(admin: Admin, filled: Filled) -> None:
    now_ms = int(time.time() * 1000)
    before = ("-b", str(now_ms - 3_600_000), "-e", str(now_ms - 1_800_000))
    assert "BODY" not in admin.run("printMsg", "-t", filled.topic, "-d", "true", *before)
    around = ("-b", str(now_ms - 3_600_000), "-e", str(now_ms + 3_600_000))
    assert "BODY: body 2" in admin.run("printMsg", "-t", filled.topic, "-d", "true", *around)


def test_send_and_consume_message(admin: Admin, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    queue = ("-b", admin.cluster.broker_name, "-i", "0")
    said = admin.run("sendMessage", "-t", topic, "-p", "hello", "-k", "k", "-c", "red", *queue)
    assert "SEND_OK" in said
    consumed = admin.run("consumeMessage", "-t", topic, *queue, "-o", "0", "-c", "1")
    assert "Consume ok" in consumed
    assert "BODY: hello" in consumed


def test_check_send_response_time(admin: Admin, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    lines = admin.table("checkMsgSendRT", "-t", topic, "-a", "3", "-s", "10")
    assert [line[2] for line in lines if line[:1] == [admin.cluster.broker_name]] == ["true"] * 3
