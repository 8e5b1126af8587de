"""Messages do not stay forever: old files of the log go, by night or when the disk is full."""

import logging

from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)


def clean_store(store: MessageStore, *, is_requested: bool = False) -> None:
    """Forgets old files of the store. Raises StoreUnavailable."""
    report = store.clean(is_requested=is_requested)
    if report.file_count:
        log.info(
            "forgot %d files of the log, which begins at %d now",
            report.file_count,
            report.log_start,
        )
    if report.is_disk_full:
        log.error("no message is taken: %d percent of the disk is in use", report.used_percent)
