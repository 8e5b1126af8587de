"""Every error path in one line, with its remedy and its exit code."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.cli.admin_commands.failures import failure_of
from roquet.client.errors import (
    MembersConnected,
    MessageNotFound,
    NoBroker,
    NoNameServer,
    NotConnected,
    RequestRefused,
    SendRefused,
    Unreachable,
)
from roquet.errors import RoquetError
from roquet.net.errors import MAY_NEED_TLS
from roquet.testing.blocking import BlockingCluster
from tests.support.accounts import LIAR, PUBLISHER, TOPIC, Signer, accounts_file
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.support.our_cluster import OurCluster
from tests.support.ports import free_port
from tests.support.snapshots import check_text, settled
from tests.unit.cli.conftest import Shop


def test_no_name_server_listens() -> None:
    address = f"127.0.0.1:{free_port()}"
    finished = roquet("topic", "list", "-n", address)
    assert (finished.exit_code, finished.stdout) == (3, "")
    (line,) = finished.stderr.splitlines()
    assert line.startswith(f"roquet topic list: no name server answered at {address} (-n): ")
    assert line.endswith("start one with roquet up, or set the address with -n HOST:PORT")


def test_a_broker_is_no_name_server(roquet_cluster: BlockingCluster) -> None:
    finished = roquet("topic", "list", "-n", roquet_cluster.broker_address())
    assert finished.exit_code == 3
    assert "is no name server but probably a broker" in finished.stderr


@pytest.mark.parametrize("address", ["no-port", "host:notaport", ";"])
def test_an_address_that_is_none(address: str) -> None:
    finished = roquet("group", "list", "-n", address)
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert len(finished.stderr.splitlines()) == 1


def test_a_file_that_makes_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("name_server = 5")
    monkeypatch.setenv("ROQUET_CONFIG", str(path))
    finished = roquet("cluster")
    assert finished.exit_code == 2
    assert finished.stderr.startswith(f"roquet cluster: {path}: ")


def test_certificates_that_are_not_there() -> None:
    finished = roquet("cluster", "--tls-ca", "absent.pem")
    assert finished.exit_code == 2
    assert "absent.pem" in finished.stderr


def test_a_change_that_a_broker_does_not_answer(roquet_cluster: BlockingCluster) -> None:
    address = roquet_cluster.name_server
    with dead_broker(address, "broker-z"):
        finished = roquet("group", "create", "g", "-n", address, "--timeout", "2")
    assert (finished.exit_code, finished.stdout) == (3, "")
    assert "is unreachable" in finished.stderr
    assert finished.stderr.endswith("roquet doctor\n")


@pytest.mark.parametrize(
    ("error", "exit_code", "remedy"),
    [
        (RequestRefused("a:1", 16, "not writable"), 1, "a:1 refused (16): not writable"),
        (NoBroker(), 3, "roquet broker -n ADDRESS"),
        (Unreachable("a:1", MAY_NEED_TLS), 3, "use --tls"),
        (RequestRefused("a:1", 1, None), 1, "a:1 refused (1): no reason given"),
        (MembersConnected("g"), 1, "stop its members first, or use --to-time"),
        (NotConnected("g", "me"), 4, "see: roquet group members g"),
        (MessageNotFound("t", "the id X"), 4, "it belongs to another topic, was never sent"),
        (NoNameServer(["refused"]), 3, "refused"),
        (SendRefused("t", "full", 14), 1, "full"),
    ],
)
def test_each_error_has_its_remedy(error: RoquetError, exit_code: int, remedy: str) -> None:
    failure = failure_of(error, None)
    assert failure.exit_code == exit_code
    assert remedy in failure.text


@pytest.mark.slow
def test_an_encrypted_cluster_is_reached_with_its_certificate(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--tls") as cluster:
        (authority,) = re.findall(r"tls-ca=(\S+)", cluster.ready_line)
        words = ("topic", "list", "-n", cluster.name_server, "--timeout", "5")
        assert roquet(*words, "--tls-ca", authority).exit_code == 0
        plain, unknown = roquet(*words), roquet(*words, "--tls")
    assert (plain.exit_code, unknown.exit_code) == (3, 3)
    assert "use --tls" in plain.stderr
    assert "roquet up" not in plain.stderr
    assert "certificate" in unknown.stderr


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of a broker with accounts."""
    path = accounts_file(tmp_path_factory.mktemp("accounts"))
    settings = {"aclEnable": "true", "aclFile": str(path)}
    with BlockingCluster(settings=settings) as cluster:
        yield cluster.name_server


@pytest.mark.parametrize(
    ("signer", "remedy"),
    [
        (None, "set credentials in ~/.config/roquet.toml"),
        (LIAR, "correct access key and secret in ~/.config/roquet.toml"),
        (PUBLISHER, "an administrator grants it with roquet account change"),
    ],
)
@pytest.mark.parametrize(
    "words", [("topic", "list"), ("message", "send", "forbidden", "text"), ("doctor",)]
)
def test_a_denied_user_learns_what_is_wrong_with_the_account(
    guarded: str,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    signer: Signer | None,
    remedy: str,
) -> None:
    if signer is not None:
        monkeypatch.setenv("ROQUET_ACCESS_KEY", signer.access_key)
        monkeypatch.setenv("ROQUET_SECRET_KEY", signer.secret_key)
    finished = roquet(*words, "-n", guarded)
    printed = " ".join((finished.stdout + finished.stderr).split())
    assert finished.exit_code == 1
    assert remedy in printed
    assert "advertise" not in printed
    assert "may be sent again" not in printed


def test_without_any_broker_no_topic_is_called_absent() -> None:
    with BlockingCluster() as cluster:
        cluster.stop_broker()
        words = ("-n", cluster.name_server)
        finished = roquet("topic", "show", TOPIC, *words)
        sent = roquet("message", "send", TOPIC, "text", *words)
    assert finished.exit_code == 3
    assert "no master is registered" in finished.stderr
    assert "no master is registered; start it, or promote a slave" in sent.stderr
    assert "create it" not in sent.stderr


def test_with_a_slave_left_its_promotion_is_named() -> None:
    with BlockingCluster(replicas=1) as cluster:
        topic = cluster.new_topic()
        cluster.copied()
        cluster.kill_master()
        finished = roquet("message", "send", topic, "text", "-n", cluster.name_server)
    assert finished.exit_code == 1
    assert "no master of broker-a is registered" in finished.stderr
    assert "roquet broker promote" in finished.stderr


# What goes wrong with one topic, group or message, or is misused; each is a line with its remedy.
WRONG = (
    "topic show nowhere",
    "topic route nowhere",
    "topic create orders",
    "topic create bad/name",
    "topic create new --queues 0",
    "topic create new --broker broker-z",
    "topic change nowhere --queues 4",
    "topic delete orders",
    "topic delete nowhere --yes",
    "group show nobody",
    "group members nobody",
    "group members billing --member absent",
    "group delete nobody --yes",
    "group delete billing",
    "message send nowhere/ text",
    "message send orders text --queue broker-a:9",
    "message tail nowhere",
    "message tail orders --sql (((",
    "message by-id orders 7F0000010007000000000000000000A1",
    "message by-id orders nonsense",
    "message by-key nowhere key",
    "message by-time orders --from tomorrow",
    "message by-offset orders broker-a:0 4711",
    "message by-offset orders broker-z:0 0",
    "message trace 7F0000010007000000000000000000A1",
    "offset show nobody",
    "offset reset nobody orders --to-start --yes",
    "offset reset billing orders",
    "offset reset billing orders --to-end",
    "offset reset billing nowhere --to-end --yes",
    "offset skip billing nowhere --yes",
    "offset clone nobody billing orders --yes",
    "dlq show nobody",
    "dlq resend billing",
    "dlq resend nobody --yes",
    "broker status broker-z",
    "broker config get broker-a nonsense",
    "broker config set broker-a nonsense=1",
    "broker config set broker-a fileReservedTime=never",
    "broker config set broker-a listenPort=1",
    "broker writes forbid broker-z",
    "bench producer -t orders -w 0",
    "mqadmin topicStatus -t nowhere",
)


def test_what_goes_wrong_is_reported_as_it_was(at: Shop) -> None:
    printed = []
    for command in WRONG:
        finished = roquet(*command.split())
        assert finished.exit_code, command
        assert "Traceback" not in finished.stderr
        # Usage, which parsers put in front, is about what is right.
        *_, line = finished.stderr.splitlines() or [""]
        printed.append(f"$ roquet {command}\n{finished.exit_code}: {line}\n")
    check_text("errors", settled("".join(printed)))
