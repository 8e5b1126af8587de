"""A disk that remembers which files were opened, and which of them are open still."""

from pathlib import Path

from tests.support.quick_disk import QuickDisk


class RecordingDisk(QuickDisk):
    def __init__(self) -> None:
        self.opened: list[Path] = []
        self.open_descriptors: set[int] = set()

    def open(self, path: Path, *, writable: bool) -> int:
        descriptor = super().open(path, writable=writable)
        self.opened.append(path)
        self.open_descriptors.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self.open_descriptors.discard(descriptor)
