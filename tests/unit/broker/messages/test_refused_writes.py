"""A store that refuses messages is logged once a minute, with their count."""

from pathlib import Path

import pytest

from roquet.broker.messages.appending import append_draft
from roquet.disk import Space
from roquet.net.errors import Refused
from roquet.store.errors import TooManyFiles
from tests.support.broker_bed import broker_bed
from tests.support.drafts import draft
from tests.support.faulty_disk import FaultyDisk


async def test_files_that_are_closed_by_themselves_are_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker_bed(tmp_path) as bed:

        def refuse(_draft: object) -> None:
            raise TooManyFiles("too many")

        monkeypatch.setattr(bed.broker.store, "append", refuse)
        with pytest.raises(Refused):
            append_draft(bed.broker.messages, "TopicA", draft())
    assert [each.levelname for each in caplog.records if "refused" in each.message] == ["WARNING"]


async def test_senders_that_are_refused_are_seen_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(tmp_path)
    async with broker_bed(tmp_path, disk=disk) as bed:
        disk.free_space = Space(95, 5)
        bed.broker.messages.expiry.clean()
        for _ in range(3):
            with pytest.raises(Refused, match="the disk is full: 95 percent"):
                append_draft(bed.broker.messages, "TopicA", draft())
            assert len(refusals(caplog)) == 1
        bed.clock.advance(60)
        bed.broker.messages.refused_writes.flush()
    first, counted = refusals(caplog)
    assert "95 percent" in first
    assert "2 times" in counted


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each for each in caplog.messages if each.startswith("messages refused")]
