"""Settings of replication that need each other."""

from pathlib import Path

import pytest

from roquet.broker.replication.in_sync import AckPolicy, AckRule
from roquet.broker.settings.apache_keys import read_config
from roquet.broker.settings.config import BrokerConfig, BrokerRole, read_secret
from roquet.settings.options import ConfigError
from tests.support.raising import raises

ETCD = {"replication.etcd": "10.0.0.1:2379, 10.0.0.2:2379"}


def config(**settings: str) -> BrokerConfig:
    given = {key.replace("__", "."): text for key, text in settings.items()}
    return read_config(given, Path("/nowhere"))[0]


def test_etcd_needs_a_secret_and_a_number_for_each() -> None:
    with pytest.raises(ConfigError, match=r"replication\.secretFile"):
        read_config({**ETCD, "brokerId": "1"}, Path("/nowhere"))
    with raises(ConfigError, key="brokerId"):
        read_config({**ETCD, "replication.secretFile": "/secret"}, Path("/nowhere"))


@pytest.mark.parametrize(
    ("etcd", "key"),
    [
        ("10.0.0.1:2379", "replication.etcdTrustCertPath"),
        ("", "replication.etcdCertPath"),
        ("https://10.0.0.1:2379", "replication.etcdKeyPath"),
    ],
)
def test_files_for_etcd_that_would_not_be_used_are_refused(etcd: str, key: str) -> None:
    with raises(ConfigError, key=key):
        read_config({"replication.etcd": etcd, key: "/file.pem"}, Path("/nowhere"))


def test_servers_of_etcd_may_encrypt() -> None:
    settings = {
        "replication.etcd": "https://10.0.0.1:2379,10.0.0.2:2379",
        "replication.etcdTrustCertPath": "/authority.pem",
        "replication.etcdCertPath": "/own.pem",
        "replication.secretFile": "/secret",
        "brokerId": "1",
    }
    found = read_config(settings, Path("/nowhere"))[0]
    assert found.etcd_is_encrypted
    assert found.has_tls_files
    assert found.etcd_files.trusted == Path("/authority.pem")
    with raises(ConfigError, key="replication.etcd"):
        read_config(settings | {"replication.etcd": "https://10.0.0.1"}, Path("/nowhere"))


def test_a_master_keeps_its_number_for_the_day_that_it_is_a_slave() -> None:
    settings = {**ETCD, "brokerId": "3", "replication.secretFile": "/secret"}
    found = read_config(settings, Path("/nowhere"))[0]
    assert found.etcd == ("10.0.0.1:2379", "10.0.0.2:2379")
    assert (found.broker_id, found.replica_id) == (0, 3)
    assert found.as_slave(found.replica_id).broker_id == 3


@pytest.mark.parametrize(
    ("settings", "policy", "copies"),
    [
        ({}, AckPolicy.ASYNC, 1),
        ({"brokerRole": "SYNC_MASTER"}, AckPolicy.ONE, 2),
        ({"replication.acknowledge": "quorum"}, AckPolicy.QUORUM, 2),
        ({"replication.acknowledge": "quorum", "replication.copies": "5"}, AckPolicy.QUORUM, 3),
        ({"brokerRole": "SYNC_MASTER", "replication.acknowledge": "quorum"}, AckPolicy.QUORUM, 2),
    ],
)
def test_a_policy_is_named_or_follows_from_the_role(
    settings: dict[str, str], policy: AckPolicy, copies: int
) -> None:
    found = read_config(settings, Path("/nowhere"))[0]
    assert (found.ack_rule.policy, found.replicas_needed) == (policy, copies)


def test_a_slave_that_is_promoted_acknowledges_as_its_policy_says() -> None:
    slave = config(brokerRole="SLAVE", brokerId="2", replication__acknowledge="one")
    assert slave.as_master().role is BrokerRole.SYNC_MASTER
    assert config(brokerRole="SLAVE", brokerId="2").as_master().role is BrokerRole.ASYNC_MASTER


def test_a_slave_without_a_policy_takes_that_of_its_master() -> None:
    slave = config(brokerRole="SLAVE", brokerId="2")
    assert slave.own_ack_rule is None
    master = slave.as_master(AckRule(AckPolicy.QUORUM, 5))
    assert (master.role, master.replicas_needed) == (BrokerRole.SYNC_MASTER, 3)
    named = config(brokerRole="SLAVE", brokerId="2", replication__acknowledge="one")
    assert named.as_master(AckRule(AckPolicy.ASYNC, 3)).replicas_needed == 2


def test_a_sync_master_that_steps_down_stays_sync() -> None:
    """With etcd every broker starts as a slave, and what its file promises still holds."""
    stepped_down = config(brokerRole="SYNC_MASTER", brokerId="3").as_slave(3)
    assert stepped_down.is_slave
    assert stepped_down.as_master(AckRule(AckPolicy.ASYNC, 3)).role is BrokerRole.SYNC_MASTER


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (
            {"brokerRole": "SYNC_MASTER", "replication.acknowledge": "async"},
            "replication.acknowledge",
        ),
        ({"replication.acknowledge": "quorum", "replication.copies": "1"}, "replication.copies"),
        ({"replication.acknowledge": "one", "replication.copies": "1"}, "replication.copies"),
    ],
)
def test_guarantees_that_cannot_be_kept_are_refused(settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(settings, Path("/nowhere"))
    assert raised.value.key == key


def test_a_secret_is_read_without_the_end_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("sixteen bytes ok\n")
    assert read_secret(path) == b"sixteen bytes ok"


@pytest.mark.parametrize("text", [None, "", "short"])
def test_a_secret_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "secret"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=r"replication\.secretFile"):
        read_secret(path)
