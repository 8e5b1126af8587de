"""`roquet mqadmin` about topics and name servers: what only Apache's tool has."""

import pytest

from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.unit.cli.conftest import Shop
from tests.unit.cli.mqadmin.asking import answer, failure


def test_topics_are_listed_with_clusters_and_groups(at: Shop) -> None:
    rows = answer("topicList", "-c")["topics"]
    assert {"cluster": "DefaultCluster", "topic": "orders", "group": "billing"} in rows
    assert {"cluster": "DefaultCluster", "topic": "TBW102", "group": None} in rows
    assert not [row for row in rows if row["topic"].startswith("%RETRY%")]


@pytest.fixture
def counted(at: Shop) -> Shop:
    """Brokers take samples of what they count."""
    wait_until(lambda: at.admin.traffic("orders").day_count == 5, 60)
    return at


def test_statistics_have_lag_and_traffic_of_each_group(counted: Shop) -> None:
    (row,) = answer("statsAll", "-t", "orders")["topics"]
    assert (row["topic"], row["group"], row["lag"]) == ("orders", "billing", 2)
    assert (row["in_day"], row["out_day"]) == (5, 0)


def test_statistics_of_active_topics_leave_out_the_others(counted: Shop) -> None:
    counted.admin.create_topic("idle")
    assert "idle" in {row["topic"] for row in answer("statsAll")["topics"]}
    assert {row["topic"] for row in answer("statsAll", "-a")["topics"]} == {"orders"}
    counted.admin.delete_topic("idle")


def test_statistics_of_a_topic_that_is_not_there(at: Shop) -> None:
    exit_code, text = failure("statsAll", "-t", "absent")
    assert (exit_code, "topic 'absent'" in text) == (4, True)


def test_queues_are_shared_among_addresses(at: Shop) -> None:
    rows = answer("allocateMQ", "-t", "orders", "-i", "10.0.0.1, 10.0.0.2,10.0.0.3")["queues"]
    shares = [(row["address"], row["broker"], row["queue"]) for row in rows]
    assert shares == [
        ("10.0.0.1", "broker-a", 0),
        ("10.0.0.1", "broker-a", 1),
        ("10.0.0.2", "broker-b", 0),
        ("10.0.0.3", "broker-b", 1),
    ]


def test_queues_cannot_be_shared_among_no_members(at: Shop) -> None:
    exit_code, text = failure("allocateMQ", "-t", "orders", "-i", " , ")
    assert exit_code == 2
    assert "expected 10.0.0.1,10.0.0.2" in text


def test_the_order_of_a_topic_is_put_and_deleted(at: Shop) -> None:
    order = ("updateOrderConf", "-t", "orders", "-m")
    assert answer(*order, "put", "-v", "broker-a:2;broker-b:2")["order"] == "broker-a:2;broker-b:2"
    assert answer(*order, "get")["order"] == "broker-a:2;broker-b:2"
    assert answer(*order, "delete")["order"] is None
    assert failure(*order, "get") == (
        4,
        "roquet mqadmin updateOrderConf: topic 'orders' has no order configuration\n",
    )
    assert failure(*order, "put")[0] == 2


def test_the_order_of_a_topic_has_three_methods(at: Shop) -> None:
    finished = roquet("mqadmin", "updateOrderConf", "-t", "orders", "-m", "post")
    assert finished.exit_code == 2
    assert "'post' is not get, put or delete" in finished.stderr


def test_pairs_are_set_and_deleted(at: Shop) -> None:
    pair = ("-s", "colours", "-k", "sky")
    answer("updateKvConfig", *pair, "-v", "blue")
    assert at.admin.kv_value("colours", "sky") == "blue"
    answer("deleteKvConfig", *pair)
    assert at.admin.kv_value("colours", "sky") is None


def test_settings_of_name_servers_are_shown_and_changed(at: Shop) -> None:
    def value_now() -> str:
        settings = answer("getNamesrvConfig")["settings"]
        (found,) = [row for row in settings if row["key"] == "orderMessageEnable"]
        assert found["name_server"] == at.name_server
        return str(found["value"])

    assert value_now() == "false"
    for value in ("true", "false"):
        change = ("-k", "orderMessageEnable", "-v", value)
        (row,) = answer("updateNamesrvConfig", *change)["settings"]
        assert row["value"] == value_now() == value


def test_a_setting_that_name_servers_refuse(at: Shop) -> None:
    exit_code, text = failure("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "elsewhere")
    assert exit_code == 1
    assert text.endswith("; set it in the config file of the name server\n")


@pytest.mark.parametrize("text", ["x", "-1"])
def test_numbers_are_checked(text: str) -> None:
    finished = roquet("mqadmin", "queryCq", "-t", "orders", "-q", text, "-i", "0")
    assert finished.exit_code == 2
    assert "-q/--queue" in finished.stderr
