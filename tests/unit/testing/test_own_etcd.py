from pathlib import Path

import pytest

from roquet.testing.own_etcd import EtcdEnded, failover_settings, own_etcd


async def test_an_etcd_that_ends_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\necho there is no room\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(EtcdEnded, match="there is no room") as raised:
        async with own_etcd(tmp_path / "home"):
            pass
    assert raised.value.log_tail == "there is no room\n"


def test_every_cluster_has_a_secret_of_its_own(tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    secrets = {
        Path(failover_settings(place, "127.0.0.1:1", 3)["replication.secretFile"]).read_text()
        for place in places
    }
    assert len(secrets) == 2
