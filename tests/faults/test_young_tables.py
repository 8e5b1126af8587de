"""Topics and groups that were made, changed or deleted right before their master was lost.

Real processes: the master is killed with SIGKILL moments after its answer, long before a slave
copies the tables the next time, and the slave is promoted.
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from roquet import Admin
from roquet.client.admin.groups import GroupSettings
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.groups import GroupConfig, GroupConfigTable
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.topics import DeleteTopicHeader
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.command_line import roquet
from tests.support.common_requests import common_pull_header, common_send_header, send_common
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication-2")]

TOPIC = "young"
GROUP = "young-readers"
QUEUE_COUNT = 8
PATIENCE_S = 60.0


class Pair:
    """A SYNC_MASTER and its slave, which has copied the tables once."""

    def __init__(self, directory: Path, running: ExitStack) -> None:
        names = running.enter_context(OurNameServer(directory / "names"))
        self.names = names.address
        self._directory = directory
        self._running = running
        self._secret = directory / "secret"
        self._secret.write_text("a secret of the brokers of one name\n")
        self.master = self.start("one", brokerRole="SYNC_MASTER")
        create_topic_at_first(self.master)
        self.slave = self.start("two", brokerRole="SLAVE", brokerId="1")
        wait_until(lambda: self.master.runtime_info.get("slaveCount") == "1", PATIENCE_S)
        wait_until(lambda: "old" in topics_of(self.slave), PATIENCE_S)

    def start(self, home: str, **settings: str) -> OurBroker:
        broker = OurBroker(
            self._directory / home,
            self.names,
            broker_name="broker-a",
            configuration={
                "haSendHeartbeatInterval": "500",
                "replication.secretFile": str(self._secret),
                "replication.acknowledge": "one",
                **settings,
            },
        )
        broker.start()
        self._running.callback(broker.kill)
        return broker

    def switch(self) -> None:
        """The slave has to have what its master acknowledged, and nothing more."""
        self.master.kill()
        promoted = roquet("broker", "promote", self.slave.address, "--force", "-n", self.names)
        assert promoted.exit_code == 0, promoted.stderr

    def old_master_follows(self) -> OurBroker:
        old = self.start("one", brokerRole="SLAVE", brokerId="2")
        wait_until(lambda: self.slave.runtime_info.get("slaveCount") == "1", PATIENCE_S)
        wait_until(lambda: is_tables_equal(old, self.slave), PATIENCE_S)
        return old


def create_topic_at_first(broker: OurBroker) -> None:
    """While there is no slave to confirm it."""
    with suppress(AssertionError):
        create_topic(broker.address, "old")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as running:
        yield Pair(tmp_path, running)


def topics_of(broker: OurBroker) -> dict[str, TopicConfig]:
    with BlockingPeer(broker.address) as peer:
        reply = peer.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    return read_body(TopicConfigTable, reply.body).topic_config_table


def groups_of(broker: OurBroker) -> dict[str, GroupConfig]:
    with BlockingPeer(broker.address) as peer:
        reply = peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return read_body(GroupConfigTable, reply.body).subscription_group_table


def is_tables_equal(one: OurBroker, two: OurBroker) -> bool:
    with suppress(OSError, PeerGone):
        return topics_of(one) == topics_of(two) and groups_of(one) == groups_of(two)
    return False


def send_to_each(broker: OurBroker, topic: str, queue_count: int) -> list[bytes]:
    """What was acknowledged."""
    bodies = [b"%s %d" % (topic.encode(), queue_id) for queue_id in range(queue_count)]
    with BlockingPeer(broker.address) as peer:
        for queue_id, body in enumerate(bodies):
            send_common(peer, topic, body, queue_id)
    return bodies


def read_each(broker: OurBroker, topic: str, queue_count: int) -> list[bytes]:
    """The last bytes of what a pull of each queue answers; nothing where it is refused."""
    found = []
    with BlockingPeer(broker.address) as peer:
        for queue_id in range(queue_count):
            reply = peer.call(RequestCode.PULL_MESSAGE, common_pull_header(topic, queue_id, 0))
            text = b"%s %d" % (topic.encode(), queue_id)
            found += [text] if reply.code == ResponseCode.SUCCESS and text in reply.body else []
    return found


def queue_counts(settings: TopicConfig | None) -> tuple[int, int] | None:
    return None if settings is None else (settings.read_queue_nums, settings.write_queue_nums)


def test_a_topic_of_an_operator_survives_its_master(pair: Pair) -> None:
    create_topic(pair.master.address, TOPIC, QUEUE_COUNT)
    sent = send_to_each(pair.master, TOPIC, QUEUE_COUNT)
    pair.switch()
    assert queue_counts(topics_of(pair.slave).get(TOPIC)) == (QUEUE_COUNT, QUEUE_COUNT)
    assert read_each(pair.slave, TOPIC, QUEUE_COUNT) == sent
    old = pair.old_master_follows()
    assert queue_counts(topics_of(old).get(TOPIC)) == (QUEUE_COUNT, QUEUE_COUNT)
    assert read_each(old, TOPIC, QUEUE_COUNT) == sent


def test_a_topic_without_a_message_survives_its_master(pair: Pair) -> None:
    create_topic(pair.master.address, TOPIC, QUEUE_COUNT, permission=4)
    pair.switch()
    made = topics_of(pair.slave).get(TOPIC)
    assert queue_counts(made) == (QUEUE_COUNT, QUEUE_COUNT)
    assert made is not None
    assert made.perm == 4


def test_a_topic_that_a_send_made_survives_its_master(pair: Pair) -> None:
    sent = send_to_each(pair.master, TOPIC, 1)
    pair.switch()
    assert queue_counts(topics_of(pair.slave).get(TOPIC)) == (4, 4)
    assert read_each(pair.slave, TOPIC, 1) == sent
    old = pair.old_master_follows()
    assert read_each(old, TOPIC, 1) == sent


def test_a_changed_topic_stays_changed(pair: Pair) -> None:
    create_topic(pair.master.address, "old", QUEUE_COUNT)
    sent = send_to_each(pair.master, "old", QUEUE_COUNT)
    pair.switch()
    assert queue_counts(topics_of(pair.slave)["old"]) == (QUEUE_COUNT, QUEUE_COUNT)
    assert read_each(pair.slave, "old", QUEUE_COUNT) == sent


def test_a_deleted_topic_stays_deleted_and_starts_again_empty(pair: Pair) -> None:
    create_topic(pair.master.address, TOPIC, QUEUE_COUNT)
    send_to_each(pair.master, TOPIC, QUEUE_COUNT)
    with BlockingPeer(pair.master.address) as peer:
        deleted = peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=TOPIC))
    assert deleted.code == ResponseCode.SUCCESS, deleted.remark
    pair.switch()
    assert TOPIC not in topics_of(pair.slave)
    with BlockingPeer(pair.slave.address) as peer:
        header = common_send_header(TOPIC, 0)
        answered = peer.call(RequestCode.SEND_MESSAGE_V2, header, b"begins again")
    # There is no slave now. What matters is that it is the first message of its queue.
    assert answered.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert b'"queueOffset":"0"' in bytes(answered.fields)
    assert queue_counts(topics_of(pair.slave)[TOPIC]) == (4, 4)
    old = pair.old_master_follows()
    assert queue_counts(topics_of(old)[TOPIC]) == (4, 4)
    assert read_each(old, TOPIC, 1) == []


def test_a_group_and_its_settings_survive_their_master(pair: Pair) -> None:
    settings = GroupSettings(retry_count_max=3, retry_queue_count=5)
    with Admin(pair.names) as admin:
        admin.create_group(GROUP, settings, cluster="DefaultCluster")
        admin.create_group("gone", cluster="DefaultCluster")
        admin.delete_group("gone", cluster="DefaultCluster")
    pair.switch()
    made = groups_of(pair.slave)
    assert (made[GROUP].retry_max_times, made[GROUP].retry_queue_nums) == (3, 5)
    assert "gone" not in made
    old = pair.old_master_follows()
    assert groups_of(old) == groups_of(pair.slave)
