"""Messages expire: old files of the log are deleted, at night or when the disk is full."""

import logging
from collections.abc import Callable
from typing import Final, final

from roquet.clock import Clock
from roquet.store.config import StoreConfig
from roquet.store.maintenance.cleaning import FULL_DISK_MARGIN, Alarm, CleanReport
from roquet.store.message_store import MessageStore
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_REMINDER_S: Final = 600.0
_LEVELS: Final = {
    Alarm.NONE: logging.INFO,
    Alarm.FILLING: logging.WARNING,
    Alarm.NEARLY_FULL: logging.WARNING,
    Alarm.FULL: logging.ERROR,
}


@final
class Expiry:
    """Cleans a store, and logs what is deleted and how much space there is.

    Disk usage is logged when it passes a limit, in either direction, and again every
    ten minutes while it is full.
    """

    def __init__(
        self, store: MessageStore, clock: Clock, config: Callable[[], StoreConfig]
    ) -> None:
        self._store = store
        self._config = config
        self._alarm = Alarm.NONE
        self._alarms = ThrottledLog(log, clock.monotonic_s, _REMINDER_S)
        self._is_postponed = False

    def clean(self, *, is_requested: bool = False) -> None:
        """Forgets old files of the store. Raises StoreUnavailable."""
        report = self._store.clean(is_requested=is_requested)
        if report.file_count:
            self._log_deleted(report)
        if report.postponed and not self._is_postponed:
            log.warning("removal of old files is postponed, retrying: %s", report.postponed)
        self._is_postponed = report.postponed is not None
        has_changed = report.alarm is not self._alarm
        if has_changed:
            self._alarms.clear_all()
        self._alarm = report.alarm
        if has_changed or report.is_disk_full:
            text = alarm_text(report.alarm, report.used_percent, self._config())
            self._alarms.add(report.alarm, text, level=_LEVELS[report.alarm], count=0)

    def _log_deleted(self, report: CleanReport) -> None:
        hours = self._config().reserved_hours
        reason = f"all older than {hours} hours"
        if report.young_file_count:
            reason = (
                f"{report.young_file_count} of them younger than {hours} hours, because"
                f" {report.used_percent} percent of the disk is in use and"
                " cleanFileForciblyEnable=true"
            )
        log.log(
            logging.WARNING if report.young_file_count else logging.INFO,
            "deleted %d messages in %d files of the log, %s; the log starts at %d now",
            *(report.message_count, report.file_count, reason, report.log_start),
        )


def alarm_text(alarm: Alarm, used_percent: int, config: StoreConfig) -> str:
    """One sentence for each step on the way to a full disk, and one for the way back."""
    place = f"{used_percent} percent of the disk of {config.layout.commit_log} is in use"
    full = f"above {config.disk_full_percent} percent no message is taken"
    match alarm:
        case Alarm.NONE:
            return f"{place}: there is room again"
        case Alarm.FILLING if config.clean_by_force:
            return (
                f"{place}: files older than {config.reserved_hours} hours go now; above"
                f" {config.disk_clean_percent} percent the oldest messages are deleted whatever"
                f" their age (cleanFileForciblyEnable=true), {full}"
            )
        case Alarm.FILLING:
            return (
                f"{place}: files older than {config.reserved_hours} hours go now; {full},"
                " and nothing younger is deleted (cleanFileForciblyEnable=false)"
            )
        case Alarm.NEARLY_FULL if config.clean_by_force:
            return (
                f"{place}: the oldest messages are deleted now, whatever their age, until"
                f" {config.disk_clean_percent} percent is in use (cleanFileForciblyEnable=true);"
                f" {full}"
            )
        case Alarm.NEARLY_FULL:
            return f"{place}: {full}; make room, or lower fileReservedTime"
        case Alarm.FULL:
            return (
                f"no message is taken: {place}; senders are refused until it is"
                f" {config.disk_full_percent - FULL_DISK_MARGIN} percent or less"
            )
