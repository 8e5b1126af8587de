"""Stories of brokers that are lost, hang, or are taken out of a cluster."""

import shutil
from pathlib import Path

import pytest

from roquet import Message, Producer, SendFailed, SendImpossible
from tests.faults.replica_sets import paused
from tests.oncall.conftest import GROUP, TOPIC, OnCall
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer

pytestmark = pytest.mark.slow


def ignore(_: object) -> None:
    """A listener that has nothing to do."""


def brokers_of(on_call: OnCall, *keys: str) -> list[str]:
    """Which brokers take messages with these keys."""
    return [each.queue.broker_name for each in on_call.send(*keys)]


def test_a_lost_broker_is_missed_until_it_is_back(on_call: OnCall) -> None:
    first, second = brokers_of(on_call, "k1", "k2")
    held = {first: "k1", second: "k2"}
    on_call.two.kill()
    wait_until(lambda: on_call.shows("cluster")["lost"])
    cluster = on_call.says("cluster", exit_code=1)
    assert "lost since" in cluster
    assert on_call.two.address in cluster
    doctor = on_call.says("doctor", exit_code=1)
    assert f"master at {on_call.two.address} is lost since" in doctor
    assert "1 problem, " in doctor
    # What it holds is not there, and no command claims that it never was.
    missing = on_call.says("message", "by-key", TOPIC, held["broker-b"], exit_code=3)
    assert "this answer is not whole, see problem: broker-b" in missing
    other = on_call.says("message", "by-key", TOPIC, held["broker-a"], exit_code=3)
    assert held["broker-a"] in other
    on_call.two.start()
    wait_until(on_call.is_well)
    on_call.says("cluster")
    assert held["broker-b"] in on_call.says("message", "by-key", TOPIC, held["broker-b"])


def test_a_broker_that_is_gone_for_good_is_forgotten(on_call: OnCall) -> None:
    on_call.two.kill()
    wait_until(lambda: on_call.shows("cluster")["lost"])
    doctor = on_call.says("doctor", exit_code=1)
    remedy = f"roquet broker forget {on_call.two.address}"
    assert remedy in doctor
    on_call.says(*remedy.split()[1:])
    assert "0 problems, " in on_call.says("doctor")
    on_call.says("topic", "show", TOPIC)


def test_a_hung_broker_hides_nothing_of_the_other(on_call: OnCall) -> None:
    with on_call.consumer(ignore):
        on_call.send("k1", "k2")
        wait_until(lambda: on_call.lag() == 0)
        with paused(on_call.two.process_id):
            shown = on_call.says("group", "list", exit_code=3)
            assert GROUP in shown
            assert f"{on_call.two.address} did not answer" in shown
            assert "this answer is not whole, see problem: broker-b" in shown
            # It alone is accused, also of nothing about clocks.
            doctor = on_call.says("doctor", exit_code=1)
            assert f"broker {on_call.two.address} cannot be asked" in doctor
            assert "1 problem, 0 warnings" in doctor
        wait_until(on_call.is_well)
        on_call.says("group", "list")


def test_a_broker_is_drained_and_taken_out(on_call: OnCall) -> None:
    on_call.send("k1", "k2")
    on_call.says("broker", "writes", "forbid", "broker-b")
    rows = {each["broker"]: each for each in on_call.shows("cluster")["brokers"]}
    assert (rows["broker-a"]["writes"], rows["broker-b"]["writes"]) == ("allowed", "forbidden")
    doctor = on_call.says("doctor")
    assert "writes are forbidden at broker-b" in doctor
    assert "roquet broker writes allow broker-b" in doctor
    assert "0 problems, 1 warning" in doctor
    # Producers use the other one, and consumers empty this one.
    assert brokers_of(on_call, "k3", "k4") == ["broker-a"] * 2
    with on_call.consumer(ignore):
        wait_until(lambda: on_call.lag() == 0)
        shown = on_call.shows("group", "show", GROUP)
        assert (shown["retries_waiting"], shown["retries_ready"]) == (0, 0)
        topic = on_call.shows("topic", "show", TOPIC)
        assert (topic["delayed"], topic["half_messages"]) == (0, 0)
        on_call.two.stop()
        # It unregistered, so it is not missing.
        on_call.says("cluster")
        assert "0 problems, 0 warnings" in on_call.says("doctor")
        assert "broker-b" not in on_call.says("topic", "route", TOPIC)
        assert brokers_of(on_call, "k5", "k6") == ["broker-a"] * 2
        wait_until(lambda: on_call.lag() == 0)


def test_a_backup_is_restored_beside_the_cluster(on_call: OnCall, tmp_path: Path) -> None:
    with on_call.consumer(ignore):
        on_call.send("k1", "k2")
        wait_until(lambda: on_call.lag() == 0)
    on_call.one.stop()
    copy = tmp_path / "drill"
    shutil.copytree(on_call.one.store_directory, copy / "store")
    on_call.one.start()
    verified = roquet("store", "verify", copy / "store")
    assert verified.exit_code == 0, verified.stdout
    names = OurNameServer(tmp_path / "drill-names")
    with names, OurBroker(copy, names.address, broker_name="broker-a") as restored:
        drill = OnCall(names, restored, restored)
        wait_until(drill.is_well)
        held = [drill.shows("topic", "show", TOPIC)["messages"], drill.lag()]
        assert held == [1, 0]
    # The cluster has noticed nothing.
    wait_until(on_call.is_well)


def test_a_topic_that_only_a_lost_broker_has_is_not_to_be_created(on_call: OnCall) -> None:
    on_call.says("topic", "create", "bills", "--broker", "broker-b")
    for broker in ("broker-a", "broker-b"):
        on_call.says("broker", "config", "set", broker, "autoCreateTopicEnable=false")
    on_call.two.kill()
    wait_until(lambda: on_call.shows("cluster")["lost"])
    with Producer(on_call.name_server, "shop") as producer:
        lost = f"lost and may have it: broker-b at {on_call.two.address}; start them"
        with pytest.raises(SendFailed, match=lost) as failed:
            producer.send(Message("bills", b"one coffee"), timeout_s=3)
        # It is there again as soon as its broker is.
        assert not isinstance(failed.value, SendImpossible)
        on_call.two.start()
        wait_until(lambda: "bills" in on_call.says("topic", "list"))
        producer.send(Message("bills", b"one coffee"))


def test_a_missing_topic_is_created(on_call: OnCall) -> None:
    for broker in ("broker-a", "broker-b"):
        on_call.says("broker", "config", "set", broker, "autoCreateTopicEnable=false")
    with Producer(on_call.name_server, "shop") as producer:
        with pytest.raises(SendFailed, match="answered 17: topic 'bills' does not exist"):
            producer.send(Message("bills", b"one coffee"))
        doctor = on_call.says("doctor", "--topic", "bills", exit_code=1)
        remedy = "roquet topic create bills"
        assert remedy in doctor
        on_call.says(*remedy.split()[1:])
        producer.send(Message("bills", b"one coffee"))
    on_call.says("doctor", "--topic", "bills")
