"""Questions to a real etcd."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from roquet.broker.replication.failover.etcd import (
    Created,
    Delete,
    Etcd,
    EtcdError,
    Modified,
    Put,
)
from roquet.broker.replication.failover.own_etcd import EtcdMissing, own_etcd_words
from roquet.net.tls.contexts import ClientTls
from roquet.net.tls.settings import TlsFiles
from tests.support.certificates import Authority
from tests.support.etcd import RealEtcd
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication")]

PREFIX = "/here/"
KEY = PREFIX + "key"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEtcd]:
    directory: Path = tmp_path_factory.mktemp("etcd")
    with RealEtcd(directory) as server:
        yield server


@pytest.fixture
async def etcd(server: RealEtcd) -> AsyncIterator[Etcd]:
    nobody = f"127.0.0.1:{free_port()}"
    etcd = Etcd([nobody, server.address], 30.0)
    try:
        await etcd.change([], [Delete(KEY)])
        yield etcd
    finally:
        await etcd.close()


async def test_what_was_put_is_found_with_its_revision(etcd: Etcd) -> None:
    revision = await etcd.change([], [Put(KEY, b"\x00value")])
    found = await etcd.find(PREFIX)
    assert found.revision == revision
    assert [(each.key, each.value, each.mod_revision) for each in found.entries] == [
        (KEY, b"\x00value", revision)
    ]


async def test_of_two_that_take_the_same_key_one_gets_it(etcd: Etcd) -> None:
    is_free = Created(KEY, 0)
    assert await etcd.change([is_free], [Put(KEY, b"1")]) is not None
    assert await etcd.change([is_free], [Put(KEY, b"2")]) is None


async def test_a_change_fails_after_another_one(etcd: Etcd) -> None:
    revision = await etcd.change([], [Put(KEY, b"1")])
    assert revision is not None
    as_it_was = Modified(KEY, revision)
    assert await etcd.change([as_it_was], [Put(KEY, b"2")]) is not None
    assert await etcd.change([as_it_was], [Put(KEY, b"3")]) is None


async def test_what_is_leased_goes_with_the_lease(etcd: Etcd) -> None:
    lease_id = await etcd.grant(60)
    await etcd.change([], [Put(KEY, b"leased", lease_id)])
    assert await etcd.keep_alive(lease_id) > 0
    await etcd.revoke(lease_id)
    assert (await etcd.find(PREFIX)).entries == []
    assert await etcd.keep_alive(lease_id) == 0


async def test_without_a_server_the_failure_is_named() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    etcd = Etcd([nobody], 5.0)
    try:
        with pytest.raises(EtcdError, match=nobody):
            await etcd.find(PREFIX)
    finally:
        await etcd.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def careful(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEtcd]:
    """Accepts only holders of certificates."""
    files = replace(authority.vouch_for("etcd").files, trusted=authority.certificate)
    with RealEtcd(tmp_path_factory.mktemp("careful"), files) as server:
        yield server


def shown_to(authority: Authority) -> TlsFiles:
    return replace(authority.vouch_for("own").files, trusted=authority.certificate)


async def put(server: str, files: TlsFiles) -> int | None:
    etcd = Etcd([server], 30.0, ClientTls(files))
    try:
        return await etcd.change([], [Put(KEY, b"1")])
    finally:
        await etcd.close()


async def test_an_etcd_that_wants_certificates_is_shown_one(
    careful: RealEtcd, authority: Authority
) -> None:
    assert await put(careful.url, shown_to(authority)) is not None


async def test_etcd_and_its_client_authenticate_each_other(
    careful: RealEtcd, authority: Authority, tmp_path: Path
) -> None:
    own, stranger = shown_to(authority), Authority(tmp_path, "stranger")
    theirs = replace(stranger.vouch_for("own").files, trusted=authority.certificate)
    with pytest.raises(EtcdError, match=r"replication\.etcdTrustCertPath must name"):
        await put(careful.url, replace(own, trusted=stranger.certificate))
    for files in (TlsFiles(trusted=authority.certificate), theirs):
        with pytest.raises(EtcdError, match=r"replication\.etcdCertPath must name"):
            await put(careful.url, files)
    with pytest.raises(EtcdError, match=r"for the host in replication\.etcd"):
        await put(careful.url.replace("127.0.0.1", "localhost"), own)


async def test_a_certificate_for_etcd_is_read_again_when_asked(
    careful: RealEtcd, tmp_path: Path, authority: Authority
) -> None:
    stranger = Authority(tmp_path, "stranger").vouch_for("own")
    tls = ClientTls(replace(stranger.files, trusted=authority.certificate))
    etcd = Etcd([careful.url], 30.0, tls)
    try:
        with pytest.raises(EtcdError):
            await etcd.find(PREFIX)
        renewed = authority.vouch_for("renewed")
        renewed.certificate.replace(stranger.certificate)
        renewed.key.replace(stranger.key)
        tls.reload()
        await etcd.find(PREFIX)
    finally:
        await etcd.close()


async def test_an_etcd_that_is_full_is_named_with_its_remedy(tmp_path: Path) -> None:
    words = ("--quota-backend-bytes", "65536")
    with RealEtcd(tmp_path / "etcd", words=words) as server:
        etcd = Etcd([server.address], 30.0)
        try:
            with pytest.raises(EtcdError, match="database space exceeded"):
                await fill(etcd)
            with pytest.raises(EtcdError, match="compact and defragment it"):
                await etcd.grant(10)
        finally:
            await etcd.close()


async def fill(etcd: Etcd) -> None:
    for number in range(100):
        await etcd.change([], [Put(f"{PREFIX}{number}", b"x" * 8192)])


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


def test_without_etcd_the_error_names_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EtcdMissing, match="apt-get install etcd-server"):
        own_etcd_words("127.0.0.1", 2379, tmp_path)
