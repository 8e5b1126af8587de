"""The lakes that a dashboard shows, read as their readers do: by their own log, without Spark."""

from dataclasses import replace
from pathlib import Path
from typing import final

from roquet.client.arguments import utc
from roquet.clock import SystemClock
from roquet.dashboard.pipelines import LakeReport
from roquet.pipeline.lake.entries import LakeEntry
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings, PublishLog
from roquet.pipeline.lake.opening import existing_settings, open_table
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.table import TableLake


@final
class LakeReporter:
    """A lake of any format, wherever it is. It may appear, vanish and be replaced by another."""

    def __init__(self, place: LakePlace) -> None:
        self.path = str(place)
        self._place = place.absolute()
        # A lake that was deleted and created again has another id.
        self._id: str | None = None
        self._reader: _ParquetLake | _Table | None = None

    def read(self) -> LakeReport:
        """Raises RoquetError and OSError."""
        settings = existing_settings(self._place)
        if self._reader is None or settings.id != self._id:
            self._id, self._reader = settings.id, _reader_of(self._place, settings)
        return self._reader.read()


def _reader_of(place: LakePlace, settings: LakeSettings) -> "_ParquetLake | _Table":
    if settings.format is LakeFormat.PARQUET:
        assert isinstance(place, Path)
        return _ParquetLake(place)
    return _Table(open_table(place, settings))


@final
class _ParquetLake:
    """Its log has the time of each batch."""

    def __init__(self, directory: Path) -> None:
        self._log = PublishLog(directory)
        self._last_batch: LakeEntry | None = None

    def read(self) -> LakeReport:
        state = self._log.refresh()
        if self._log.last_entry is not None and self._log.last_entry.added:
            self._last_batch = self._log.last_entry
        last = self._last_batch
        added = () if last is None else last.added
        return LakeReport(
            rows=state.row_count,
            files=len(state.files),
            size=sum(each.bytes for each in state.files.values()),
            quarantined=state.quarantined_count,
            last_batch=None if last is None else utc(last.published_ms),
            last_rows=sum(each.rows for each in added),
            last_files=sum(bool(each.path) for each in added),
            ends=state.queue_ends(),
        )


@final
class _Table:
    """A table lists files, not batches: one is seen when rows are added between two reads."""

    def __init__(self, lake: TableLake) -> None:
        self._lake = lake
        self._paths: set[str] | None = None
        self._last = LakeReport()

    def read(self) -> LakeReport:
        files = self._lake.files()
        report = replace(
            self._last,
            rows=sum(each.rows for each in files),
            files=len(files),
            size=sum(each.bytes for each in files),
            quarantined=sum(each.rows for each in self._lake.quarantined_files()),
            ends=self._lake.state.queue_ends(),
        )
        paths = {each.path for each in files}
        # Compacted files are new, too, and add no rows.
        if self._paths is not None and report.rows > self._last.rows:
            report = replace(
                report,
                last_batch=utc(SystemClock().now_ms()),
                last_rows=report.rows - self._last.rows,
                last_files=len(paths - self._paths),
            )
        self._paths, self._last = paths, report
        return report
