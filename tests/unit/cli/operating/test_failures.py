"""Every error path in one line, with its remedy and its exit code."""

from pathlib import Path

import pytest

from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.support.ports import free_port


def test_nobody_at_the_name_server() -> None:
    address = f"127.0.0.1:{free_port()}"
    finished = roquet("topic", "list", "-n", address)
    assert (finished.exit_code, finished.stdout) == (3, "")
    (line,) = finished.stderr.splitlines()
    assert line.startswith(f"roquet topic list: no name server answered at {address} (-n): ")
    assert line.endswith("start one with roquet up, or name another with -n HOST:PORT")


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


def test_a_broker_that_does_not_answer(roquet_cluster: BlockingCluster) -> None:
    address = roquet_cluster.name_server
    with dead_broker(address, "broker-z"):
        finished = roquet("group", "list", "-n", address, "--timeout", "2")
    assert (finished.exit_code, finished.stdout) == (3, "")
    assert "cannot be asked" in finished.stderr
    assert finished.stderr.endswith("roquet doctor\n")
