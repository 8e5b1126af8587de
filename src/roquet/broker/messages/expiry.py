"""Messages do not stay forever: old files of the log go, at night or when the disk is full."""

import logging
from collections.abc import Callable
from typing import Final, final

from roquet.broker.messages.disk_alarms import alarm_text
from roquet.clock import Clock
from roquet.store.config import StoreConfig
from roquet.store.maintenance.cleaning import Alarm, CleanReport
from roquet.store.message_store import MessageStore

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
    """Cleans a store, and tells an operator what goes and how much room there is.

    How full the disk is gets told when it has passed a limit, in either direction, and again every
    ten minutes while it is full.
    """

    def __init__(
        self, store: MessageStore, clock: Clock, config: Callable[[], StoreConfig]
    ) -> None:
        self._store = store
        self._clock = clock
        self._config = config
        self._alarm = Alarm.NONE
        self._told_at_s = 0.0
        self._is_postponed = False

    def clean(self, *, is_requested: bool = False) -> None:
        """Forgets old files of the store. Raises StoreUnavailable."""
        report = self._store.clean(is_requested=is_requested)
        if report.file_count:
            self._tell_what_went(report)
        if report.postponed and not self._is_postponed:
            log.warning("removal of old files is postponed, retrying: %s", report.postponed)
        self._is_postponed = report.postponed is not None
        now_s = self._clock.monotonic_s()
        is_reminder_due = report.is_disk_full and now_s >= self._told_at_s + _REMINDER_S
        if report.alarm is not self._alarm or is_reminder_due:
            self._alarm = report.alarm
            self._told_at_s = now_s
            text = alarm_text(report.alarm, report.used_percent, self._config())
            log.log(_LEVELS[report.alarm], text)

    def _tell_what_went(self, report: CleanReport) -> None:
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
            "deleted %d messages in %d files of the log, %s; the log begins at %d now",
            *(report.message_count, report.file_count, reason, report.log_start),
        )
