"""A store that takes nothing is told once a minute, with how many it has cost."""

from pathlib import Path

import pytest

from roquet.broker.messages.appending import append_draft
from roquet.broker.messages.refused_writes import RefusedWrites
from roquet.disk import Space
from roquet.net.errors import Refused
from roquet.store.errors import DiskFull, TooManyFiles
from tests.support.broker_bed import broker_bed
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk

FULL = DiskFull("no room")


def test_the_first_is_told_at_once_and_the_others_when_their_minute_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    writes = RefusedWrites(clock)
    writes.tell()
    writes.note(FULL, 1)
    writes.note(FULL, 2)
    writes.note(FULL, 32)
    assert caplog.messages == ["messages refused: 1 (no room)"]
    clock.advance(59)
    writes.tell()
    assert len(caplog.messages) == 1
    clock.advance(1)
    writes.tell()
    writes.tell()
    assert caplog.messages[1:] == ["messages refused: 34 (no room)"]


def test_files_that_are_closed_by_themselves_are_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    RefusedWrites(FakeClock()).note(TooManyFiles("too many"), 1)
    assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_senders_who_are_refused_are_seen_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(tmp_path)
    async with broker_bed(tmp_path, disk=disk) as bed:
        disk.free_space = Space(95, 5)
        bed.broker.expiry.clean()
        for _ in range(3):
            with pytest.raises(Refused, match="the disk is full: 95 percent"):
                append_draft(bed.broker, "TopicA", draft())
    (refused,) = [each for each in caplog.messages if each.startswith("messages refused")]
    assert refused == (
        "messages refused: 1 (the disk is full: 95 percent of it is in use, more than "
        "diskSpaceWarningLevelRatio allows)"
    )
