"""Answers in part: without the brokers that cannot be asked."""

import pytest

from roquet.client.admin.missing import MissingBroker, MissingBrokers
from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.group.start_offset import StartFrom
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.dead_broker import dead_broker
from tests.support.eventually import wait_until


def test_a_broker_is_missing_for_its_first_reason() -> None:
    missing = MissingBrokers()
    missing.note(MissingBroker("b", "b:1", RequestRefused("b:1", 1, "no")))
    missing.note_unreachable(MissingBroker("b", "b:1", Unreachable("b:1", "hangs")))
    missing.note(MissingBroker("a", "a:1", Unreachable("a:1", "refused")))
    assert [(each.broker_name, each.reason) for each in missing] == [
        ("a", "refused"),
        ("b", "b:1 answered 1: no"),
    ]
    assert missing.unreachable("a:1") is None
    assert missing.unreachable("b:1") is not None


def test_an_unreachable_broker_is_raised_unless_the_answer_may_be_in_part(
    roquet_cluster: BlockingCluster,
) -> None:
    address = roquet_cluster.name_server
    with dead_broker(address, "broker-z"), Admin(address, timeout_s=2.0) as admin:
        with pytest.raises(Unreachable):
            admin.groups()
        admin.create_group("billing", broker="broker-a")
        partial = admin.partial()
        assert "billing" in partial.groups()
        assert [each.broker_name for each in partial.missing] == ["broker-z"]
        assert admin.missing == ()


def test_a_broker_that_refuses_is_missing_unless_all_do() -> None:
    with BlockingCluster(brokers=2) as cluster, Admin(cluster.name_server) as admin:
        # That of broker-a by another name: an address belongs to whoever registered with it last.
        address = cluster.broker_address("broker-a").replace("127.0.0.1", "localhost")
        liar = dead_broker(cluster.name_server, "broker-z", address=address)
        # It has the topic, says its registration.
        with liar:
            with pytest.raises(RequestRefused):
                admin.partial().topic_statistics("t")
            admin.create_topic("t", broker="broker-b")
            partial = admin.partial()
            queues = partial.topic_statistics("t").queues
    assert {each.queue.broker_name for each in queues} == {"broker-b"}
    (missing,) = partial.missing
    assert missing.broker_name == "broker-z"
    assert isinstance(missing.error, RequestRefused)


def test_a_slave_answers_for_a_master_that_is_gone() -> None:
    with BlockingCluster(replicas=1) as cluster, Admin(cluster.name_server) as admin:
        topic = cluster.new_topic(queues=1)
        admin.create_group("billing")
        with Producer(cluster.name_server, "till") as producer:
            sent = producer.send(Message(topic, b"1", keys=("k",)))
        admin.apply_reset(admin.plan_reset("billing", topic, StartFrom.FIRST))
        cluster.copied()
        cluster.kill_master()
        wait_until(lambda: all(not each.is_master for each in admin.brokers(with_state=False)))
        partial = admin.partial()
        assert [each.message_id for each in partial.messages_by_key(topic, "k")] == [
            sent.message_id
        ]
        assert partial.message(topic, sent.message_id).body == b"1"
        assert len(partial.messages_between(topic)) == 1
        assert partial.topic_statistics(topic).message_count == 1
        assert partial.progress("billing").lag == 1
        assert topic in partial.all_topic_settings()
        (missing,) = partial.missing
        assert missing.reason.startswith("it has no master; a slave answers")
