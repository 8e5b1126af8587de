"""How much of their disk the files of brokers will take, logged before the first message.

A log grows by whole files, each of which takes its space when it is made: the first one at once,
the next one when the one before is half full. So an operator learns of it when a broker
starts, and not when its disk is full.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from roquet.broker.errors import NoRoomForStore
from roquet.disk import Disk, Space
from roquet.store.config import StoreConfig

_GB: Final = 1 << 30
_MB: Final = 1 << 20
_KB: Final = 1 << 10


class DiskPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Of brokers that share a disk and their settings; `new_count` of them have no log yet."""

    directory: Path
    space: Space
    config: StoreConfig
    count: int
    new_count: int

    @property
    def needed_size(self) -> int:
        """What new logs take at once."""
        return self.new_count * self.config.commit_log_file_size

    @property
    def size_left(self) -> int:
        """What may be taken before senders are refused."""
        whole = self.space.used + self.space.usable
        return max(0, whole * self.config.disk_full_percent // 100 - self.space.used)


def plan_of(stores: Sequence[StoreConfig], disk: Disk) -> DiskPlan:
    """Raises OSError."""
    config = stores[0]
    logs = [each.layout.commit_log for each in stores]
    directory = next(each for each in (logs[0], *logs[0].parents) if disk.exists(each))
    return DiskPlan(
        directory=directory,
        space=disk.space(directory),
        config=config,
        count=len(stores),
        new_count=sum(not _has_files(disk, each) for each in logs),
    )


def _has_files(disk: Disk, log: Path) -> bool:
    return disk.exists(log) and any(not entry.is_directory for entry in disk.entries(log))


def check_room(plan: DiskPlan) -> None:
    """Raises NoRoomForStore; not for an existing store, which can be read without space."""
    needed, left = plan.needed_size, plan.size_left
    if needed > left:
        raise NoRoomForStore(
            plan.directory,
            f"{_first_files(plan)} {size_text(needed)}, and {size_text(left)} can be taken before"
            f" {plan.config.disk_full_percent} percent of the disk is in use"
            " (diskSpaceWarningLevelRatio)",
        )


def use_text(plan: DiskPlan) -> str:
    """What an operator reads when brokers start."""
    config, count = plan.config, plan.count
    whose = "the log grows" if count == 1 else f"each of {count} logs grows"
    return (
        f"{whose} by files of {size_text(config.commit_log_file_size)}, the next one made when one"
        f" is half full; {_now(plan)}. Messages are kept for {config.reserved_hours} hours;"
        f" {size_text(plan.size_left)} can be taken on the disk of {plan.directory} before senders"
        f" are refused, at {config.disk_full_percent} percent"
    )


def _now(plan: DiskPlan) -> str:
    if not plan.new_count:
        return "what was there is used"
    return f"{_first_files(plan)} {size_text(plan.needed_size)} now"


def _first_files(plan: DiskPlan) -> str:
    return "the first one takes" if plan.new_count == 1 else f"the first {plan.new_count} take"


def size_text(size: int) -> str:
    for unit, name in ((_GB, "GB"), (_MB, "MB"), (_KB, "KB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
