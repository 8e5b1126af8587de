"""What an operator is told about a disk that fills up: what happens now, and what will, when."""

from roquet.store.config import StoreConfig
from roquet.store.maintenance.cleaning import FULL_DISK_MARGIN, Alarm


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
