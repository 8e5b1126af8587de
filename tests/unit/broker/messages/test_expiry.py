"""What the log of a broker says when the store was cleaned."""

from pathlib import Path

import pytest

from roquet.broker.messages.expiry import clean_store
from roquet.disk import Space
from tests.support.faulty_disk import FaultyDisk
from tests.support.stores import opened


def test_a_disk_without_room_is_told_to_whoever_reads_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(tmp_path)
    with opened(tmp_path, disk=disk) as store:
        clean_store(store)
        assert not caplog.records
        disk.free_space = Space(91, 9)
        clean_store(store)
    assert "no message is taken: 91 percent" in caplog.text
