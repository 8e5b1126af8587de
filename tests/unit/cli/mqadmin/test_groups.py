"""`roquet mqadmin` about groups and producers: what only Apache's tool has."""

from collections.abc import Iterator

import pytest

from roquet.client.blocking.consumers import PushConsumer
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.unit.cli.conftest import Shop, silent
from tests.unit.cli.mqadmin.asking import answer, failure


@pytest.fixture
def packing(at: Shop) -> Iterator[str]:
    """The client id of the only member of group "packing", which reads all of "orders"."""
    consumer = PushConsumer(at.name_server, "packing", silent)
    consumer.subscribe("orders")
    with consumer:

        def queues() -> int:
            members = at.admin.members("packing").client_ids
            info = at.admin.running_info("packing", members[0]) if members else None
            return sum(each.topic == "orders" for each in info.queues) if info else 0

        wait_until(lambda: queues() == 4)
        yield at.admin.members("packing").client_ids[0]
    at.admin.delete_group("packing")


def test_a_group_is_deleted_at_one_broker(at: Shop) -> None:
    at.admin.create_group("short")
    address = next(each.address for each in at.admin.brokers() if each.broker_name == "broker-b")
    answer("deleteSubGroup", "-g", "short", "-b", address, "-r", "true")
    assert at.admin.group_settings("short").keys() == {"broker-a"}
    at.admin.delete_group("short")


def test_progress_with_the_client_that_reads_each_queue(at: Shop, packing: str) -> None:
    found = answer("consumerProgress", "-g", "packing", "-t", "orders", "-s", "true")
    assert [row["member"] for row in found["queues"]] == [packing] * 4


def test_progress_of_a_group_without_members_has_no_clients(at: Shop) -> None:
    found = answer("consumerProgress", "-g", "billing", "-s", "true")
    assert found["lag"] == 2
    assert {row["member"] for row in found["queues"]} == {None}


def test_stacks_of_members_are_shown(at: Shop, packing: str) -> None:
    (member,) = answer("consumerStatus", "-g", "packing", "-s")["stacks"]
    assert member["client"] == packing
    one = answer("consumerStatus", "-g", "packing", "-s", "-i", packing)
    assert (one["client"], ".py" in one["stack"]) == (packing, True)
    finished = roquet("mqadmin", "consumerStatus", "-g", "packing", "-i", packing, "-s")
    assert finished.exit_code == 0
    client, *stack = finished.stdout.splitlines()
    assert client == packing
    assert any(".py" in line for line in stack)


def test_the_stack_of_a_member_that_is_not_connected(at: Shop) -> None:
    assert failure("consumerStatus", "-g", "billing", "-s", "-i", "nobody")[0] == 4


def test_progress_of_all_groups_at_a_broker(at: Shop) -> None:
    address = next(each.address for each in at.admin.brokers() if each.broker_name == "broker-a")
    found = answer("brokerConsumeStats", "-b", address)
    rows = {(row["group"], row["topic"], row["queue"]): row for row in found["queues"]}
    behind = rows["billing", "orders", 0]
    assert (behind["broker"], behind["committed"], behind["end"]) == ("broker-a", 1, 3)
    assert (behind["lag"], found["lag"]) == (2, 2)
    few = answer("brokerConsumeStats", "-b", address, "-l", "2", "-t", "9000")["queues"]
    assert [(row["group"], row["queue"]) for row in few] == [("billing", 0)]
    assert answer("brokerConsumeStats", "-b", address, "-o", "true") == {"lag": 0, "queues": []}


def test_settings_of_a_group_are_those_of_each_broker(at: Shop) -> None:
    rows = answer("getConsumerConfig", "-g", "billing")["settings"]
    assert {row["broker"] for row in rows} == {"broker-a", "broker-b"}
    assert {row["value"] for row in rows if row["key"] == "retryMaxTimes"} == {"16"}
    assert failure("getConsumerConfig", "-g", "absent")[0] == 4


def test_producers_by_broker_and_by_group(at: Shop) -> None:
    address = next(each.address for each in at.admin.brokers() if each.broker_name == "broker-a")
    wait_until(lambda: bool(at.admin.producers("till", broker="broker-a")))
    at_broker = answer("producer", "-b", address)["producers"]
    assert "till" in {row["group"] for row in at_broker}
    (connected,) = answer("producerConnection", "-g", "till", "-t", "orders")["producers"]
    assert connected["client"] in {row["client"] for row in at_broker}
