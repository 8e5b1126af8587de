"""What an operator reads of the files that a broker finds."""

from pathlib import Path

import pytest

from roquet import process_limits
from roquet.broker import loading
from roquet.process_limits import KeptLimit
from tests.support.broker_bed import broker_bed
from tests.support.drafts import draft


async def test_queues_with_nearly_as_many_files_as_can_be_open_are_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_bed(tmp_path) as bed:
        for queue_id in range(30):
            bed.broker.store.append(draft(queue_id=queue_id))
    assert "can be open at once" not in caplog.text
    monkeypatch.setattr(loading, "kept_limit", lambda: KeptLimit(40, "ulimit -n is 128"))
    async with broker_bed(tmp_path):
        pass
    assert "have 30 files, and 40 can be open at once: ulimit -n is 128" in caplog.text


async def test_a_limit_of_mappings_is_reported_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_bed(tmp_path) as bed:
        for queue_id in range(30):
            bed.broker.store.append(draft(queue_id=queue_id))
    limit = tmp_path / "max_map_count"
    limit.write_text("32")
    monkeypatch.setattr(process_limits, "_MAP_LIMIT_PATH", limit)
    async with broker_bed(tmp_path):
        pass
    assert "sysctl vm.max_map_count is 32" in caplog.text
