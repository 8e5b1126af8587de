"""`roquet broker --processes`: several brokers that start and stop together."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet import Admin, Message, Producer
from roquet.broker.settings.config import BrokerConfig
from roquet.cli.serving.broker_process import members_of
from roquet.store.config import StoreConfig
from tests.support.certificates import Authority
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurNameServer, OurServer, OurServerFailed


class OurBrokers(OurServer):
    def __init__(self, directory: Path, name_server: str, *arguments: str) -> None:
        super().__init__(directory, r"serves at (?s:.*) serves at \S+\n")
        self._name_server = name_server
        self._arguments = arguments

    def command(self) -> list[str]:
        settings = self.directory / "broker.conf"
        settings.write_text("brokerName=group\nmappedFileSizeCommitLog=8388608\n")
        places = ["-n", self._name_server, "--dir", str(self.directory / "store"), "--port", "0"]
        return ["broker", "-c", str(settings), *places, "--processes", "2", *self._arguments]

    @property
    def children(self) -> list[int]:
        task = f"/proc/{self.process_id}/task/{self.process_id}/children"
        return [int(child_id) for child_id in Path(task).read_text().split()]


@pytest.fixture
def names(tmp_path: Path) -> Iterator[str]:
    with OurNameServer(tmp_path / "names") as server:
        yield server.address


def broker_names(names: str) -> list[str]:
    with Admin(names) as admin:
        return sorted(each.broker_name for each in admin.brokers())


@pytest.mark.slow
def test_clients_see_as_many_brokers_as_there_are_processes(tmp_path: Path, names: str) -> None:
    with OurBrokers(tmp_path / "group", names):
        assert broker_names(names) == ["group-0", "group-1"]
        with Admin(names) as admin, Producer(names, "shop") as producer:
            admin.create_topic("orders")
            # One more than a broker has queues: whichever is the first, both are used.
            used = {producer.send(Message("orders", b"x")).queue.broker_name for _ in range(9)}
        assert used == {"group-0", "group-1"}
    assert broker_names(names) == []
    assert (tmp_path / "group" / "store" / "group-1" / "commitlog").is_dir()


@pytest.mark.slow
def test_a_hangup_reaches_all_that_have_certificates(tmp_path: Path, names: str) -> None:
    holder = Authority(tmp_path).vouch_for()
    files = ("--tls-cert", str(holder.certificate), "--tls-key", str(holder.key))
    with OurBrokers(tmp_path / "group", names, *files) as brokers:
        os.kill(brokers.process_id, signal.SIGHUP)
        wait_until(lambda: brokers.log_tail().count("certificates reloaded") == 2)
        assert broker_names(names) == ["group-0", "group-1"]


@pytest.mark.slow
def test_one_that_dies_is_started_again_and_the_others_continue(tmp_path: Path, names: str) -> None:
    brokers = OurBrokers(tmp_path / "group", names)
    brokers.start()
    first, second = brokers.children
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: brokers.log_tail().count("group-0 serves at") == 2)
    assert broker_names(names) == ["group-0", "group-1"]
    assert second in brokers.children
    assert " ERROR " in brokers.log_tail()
    assert "group-0 exited unexpectedly (exit code -9): it is started" in brokers.log_tail()
    os.kill(brokers.process_id, signal.SIGTERM)
    wait_until(lambda: brokers.has_ended)
    assert broker_names(names) == []


@pytest.mark.slow
def test_a_command_that_is_stopped_starts_nothing_again(tmp_path: Path, names: str) -> None:
    brokers = OurBrokers(tmp_path / "group", names)
    brokers.start()
    first, _ = brokers.children
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "exited unexpectedly" in brokers.log_tail())
    os.kill(brokers.process_id, signal.SIGTERM)
    wait_until(lambda: brokers.has_ended)
    assert brokers.log_tail().count("group-0 serves at") == 1


@pytest.mark.slow
def test_when_one_cannot_start_all_end(tmp_path: Path, names: str) -> None:
    # Where the directory of the first broker is to be.
    (tmp_path / "group" / "store").mkdir(parents=True)
    (tmp_path / "group" / "store" / "group-0").write_text("")
    brokers = OurBrokers(tmp_path / "group", names)
    with pytest.raises(OurServerFailed, match="exited unexpectedly: group-0"):
        brokers.start()


@pytest.mark.slow
def test_none_outlives_the_command(tmp_path: Path, names: str) -> None:
    brokers = OurBrokers(tmp_path / "group", names)
    brokers.start()
    children = brokers.children
    brokers.kill()
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def test_each_has_a_name_a_directory_and_ports_of_its_own(tmp_path: Path) -> None:
    store = StoreConfig(root=tmp_path, commit_log_directory=tmp_path / "log")
    config = BrokerConfig(store=store, broker_name="b", listen_port=10911)
    _, second = members_of(config, 2)
    assert (second.broker_name, second.listen_port) == ("b-1", 10921)
    assert second.store.root == tmp_path / "b-1"
    assert second.store.commit_log_directory == tmp_path / "log" / "b-1"
    assert [each.listen_port for each in members_of(replace(config, listen_port=0), 2)] == [0, 0]


def test_their_count_has_an_end() -> None:
    result = roquet("broker", "--processes", 65)
    assert result.exit_code == 2
    assert "--processes" in result.stderr
