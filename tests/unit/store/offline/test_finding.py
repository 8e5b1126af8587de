from pathlib import Path

from roquet.disk import SystemDisk
from roquet.store.errors import BadStoreDirectory, SeveralStores
from roquet.store.offline.reader import StoreReader, find_store
from tests.support.drafts import draft
from tests.support.raising import raises
from tests.support.stores import opened


def make_store(root: Path) -> Path:
    with opened(root) as store:
        store.append(draft())
    return root


def test_a_store_is_its_own_directory(tmp_path: Path) -> None:
    make_store(tmp_path)
    make_store(tmp_path / "broker-a")
    assert find_store(SystemDisk(), tmp_path).root == tmp_path


def test_the_only_store_below_a_directory_is_meant(tmp_path: Path) -> None:
    root = make_store(tmp_path / "broker-a")
    (tmp_path / "namesrv").mkdir()
    with StoreReader.open(tmp_path) as reader:
        assert reader.root == root
        assert reader.snapshot().root == root
        assert reader.queues() == {"TopicA": [0]}


def test_of_several_stores_none_is_meant(tmp_path: Path) -> None:
    stores = tuple(make_store(tmp_path / name) for name in ("broker-a", "broker-b"))
    with raises(SeveralStores, stores=stores) as caught:
        StoreReader.open(tmp_path)
    assert caught.value.stores == stores


def test_a_log_that_is_named_is_the_one(tmp_path: Path) -> None:
    make_store(tmp_path / "broker-a")
    with raises(BadStoreDirectory, path=tmp_path):
        find_store(SystemDisk(), tmp_path, tmp_path / "elsewhere")
