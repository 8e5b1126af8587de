from pathlib import Path

from roquet.disk import SystemDisk
from roquet.store.errors import StoreInUse
from roquet.store.files.layout import layout_of
from roquet.store.store_lock import StoreLock, is_ours
from tests.support.faulty_disk import FaultyDisk
from tests.support.raising import raises


def test_a_second_owner_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "store")
    first = StoreLock(SystemDisk(), layout)
    with raises(StoreInUse, path=layout.lock):
        StoreLock(SystemDisk(), layout)
    first.release()
    StoreLock(SystemDisk(), layout).release()


def test_a_store_is_ours_until_another_broker_has_had_it(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "store")
    assert not is_ours(SystemDisk(), layout)
    owner = StoreLock(SystemDisk(), layout)
    assert not owner.was_ours
    owner.mark_ours()
    owner.release()
    assert is_ours(SystemDisk(), layout)
    # As Apache does when it starts.
    layout.lock.write_bytes(b"lock")
    assert not is_ours(SystemDisk(), layout)
    owner = StoreLock(SystemDisk(), layout)
    assert not owner.was_ours
    owner.release()
    assert layout.lock.read_bytes() == b"lock"


def test_a_store_that_was_not_closed_is_not_clean(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "store")
    owner = StoreLock(SystemDisk(), layout)
    assert owner.was_clean
    owner.mark_open()
    owner.release()
    owner = StoreLock(SystemDisk(), layout)
    assert not owner.was_clean
    owner.mark_open()
    owner.mark_clean()
    owner.release()
    owner = StoreLock(SystemDisk(), layout)
    assert owner.was_clean
    owner.release()


def test_what_is_marked_is_safe(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    owner = StoreLock(disk, layout_of(tmp_path / "store"))
    owner.mark_open()
    assert tmp_path / "store" / "abort" not in disk.unsynced()
    owner.mark_clean()
    owner.release()
    assert tmp_path / "store" / "abort" not in disk.surviving_names()


def test_a_store_directory_is_private(tmp_path: Path) -> None:
    layout = layout_of(tmp_path / "store")
    StoreLock(SystemDisk(), layout).release()
    assert layout.root.stat().st_mode & 0o777 == 0o700
