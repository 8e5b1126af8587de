from pathlib import Path

import pytest

from roquet.broker.replication.failover.own_etcd import EtcdMissing, own_etcd_words


def test_it_serves_clients_at_the_port_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "etcd"
    program.touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    words = own_etcd_words("127.0.0.1", 2379, tmp_path / "data")
    assert words[0] == str(program)
    assert words[words.index("--listen-client-urls") + 1] == "http://127.0.0.1:2379"
    assert words[words.index("--listen-peer-urls") + 1] == "http://127.0.0.1:2380"


def test_a_machine_without_etcd_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EtcdMissing, match="apt-get install etcd-server"):
        own_etcd_words("127.0.0.1", 2379, tmp_path)
