"""Questions to a real etcd."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from roquet.broker.replication.failover.etcd import (
    Created,
    Delete,
    Etcd,
    EtcdError,
    Modified,
    Put,
)
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
