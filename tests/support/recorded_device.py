"""A block device that remembers every write and every flush, in the order in which they came.

It is one file of a FUSE file system of ours, with a loop device on it, so that a real file system
can be made there. `cut_at` says what the platter may hold when power fails at some point of the
record: all that a flush has covered, and of what came since any sectors at all.

FUSE is spoken by hand: the file is the root of its file system, so eight kinds of requests are all
there is. Needs Linux, root, /dev/fuse and a free loop device.
"""

import ctypes
import errno
import os
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, NamedTuple, Self

SECTOR_SIZE: Final = 512

_ROOT: Final = 1
_REQUEST: Final = struct.Struct("=IIQQIIII")
_REPLY: Final = struct.Struct("=IiQ")
_INIT: Final = struct.Struct("=IIIIHHIIHH8I")
_ATTRIBUTES: Final = struct.Struct("=QIIQQQQQQIIIIIIIIII")
_OPENED: Final = struct.Struct("=QII")
_RANGE: Final = struct.Struct("=QQI")
_WRITE_HEAD_SIZE: Final = 40
_WRITTEN: Final = struct.Struct("=II")
_STATFS: Final = struct.Struct("=QQQQQIIII24x")

_GETATTR, _SETATTR, _OPEN, _READ, _WRITE, _STAT = 3, 4, 14, 15, 16, 17
_RELEASE, _FSYNC, _FLUSH, _INITIALISE, _DESTROY = 18, 20, 25, 26, 38
_SILENT: Final = (2, 36, 42)  # Forgotten, or interrupted: there is no waiter for an answer.
_AGREED: Final = (_RELEASE, _FLUSH, _DESTROY)

_VERSION: Final = (7, 31)
_BIG_WRITES: Final = 1 << 5
_MAX_PAGES: Final = 1 << 22
_WRITE_SIZE_MAX: Final = 1 << 20
_BUFFER_SIZE: Final = _WRITE_SIZE_MAX + 4096
_FILE_MODE: Final = 0o100600


class DeviceFailed(Exception):
    """The system did not make what was asked for; the text has its output."""


class Event(NamedTuple):
    """A write, or without data a flush: all before it is safe. The time is a monotonic one."""

    at_s: float
    position: int = 0
    data: bytes = b""


def missing() -> str | None:
    """Why there can be no such device here, if so."""
    if os.geteuid() != 0:
        return "only root may mount a file system"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    for program in ("losetup", "mkfs.ext4", "mount"):
        if not any(Path(place, program).exists() for place in ("/sbin", "/usr/sbin", "/bin")):
            return f"there is no {program}"
    return None


class RecordedDevice:
    """While the block runs, `path` is a block device of `size` zero bytes."""

    def __init__(self, directory: Path, size: int) -> None:
        self.size = size
        self.events: list[Event] = []
        self._content = bytearray(size)
        self._file = directory / "device"
        self._stack = ExitStack()
        self.path = Path()

    def __enter__(self) -> Self:
        self._file.touch()
        fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        with ExitStack() as stack:
            # Last of all, when the file system is gone and the thread with it.
            stack.callback(os.close, fuse)
            _mount_fuse(fuse, self._file)
            server = threading.Thread(target=self._serve, args=(fuse,), daemon=True)
            server.start()
            stack.callback(server.join, 10.0)
            stack.callback(_run, "umount", str(self._file))
            self.path = Path(stack.enter_context(loop_device(self._file)))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _serve(self, fuse: int) -> None:
        while True:
            try:
                request = os.read(fuse, _BUFFER_SIZE)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return  # Unmounted.
                if error.errno in (errno.ENOENT, errno.EINTR):
                    continue  # It was interrupted before we took it.
                raise
            _, code, number, *_ = _REQUEST.unpack_from(request)
            if code in _SILENT:
                continue
            failure, answer = self._answered(code, request[_REQUEST.size :])
            os.write(fuse, _REPLY.pack(_REPLY.size + len(answer), -failure, number) + answer)

    def _answered(self, code: int, body: bytes) -> tuple[int, bytes]:
        """An error number, or 0 and what is answered."""
        if code == _READ:
            _, position, size = _RANGE.unpack_from(body)
            return 0, bytes(self._content[position : position + size])
        if code == _WRITE:
            _, position, size = _RANGE.unpack_from(body)
            data = body[_WRITE_HEAD_SIZE : _WRITE_HEAD_SIZE + size]
            self._content[position : position + size] = data
            self.events.append(Event(time.monotonic(), position, data))
            return 0, _WRITTEN.pack(size, 0)
        if code == _FSYNC:
            self.events.append(Event(time.monotonic()))
            return 0, b""
        if code in (_GETATTR, _SETATTR):
            return 0, self._attributes()
        if code == _OPEN:
            return 0, _OPENED.pack(0, 0, 0)
        if code == _INITIALISE:
            return 0, _INIT.pack(
                *_VERSION, 0, _BIG_WRITES | _MAX_PAGES, 0, 0, _WRITE_SIZE_MAX, 1, 256, 0, *[0] * 8
            )
        if code == _STAT:
            return 0, _STATFS.pack(0, 0, 0, 1, 0, 4096, 255, 4096, 0)
        return (0, b"") if code in _AGREED else (errno.ENOSYS, b"")

    def _attributes(self) -> bytes:
        blocks = self.size // SECTOR_SIZE
        times = (0, 0, 0)
        kind = (_FILE_MODE, 1, 0, 0, 0, 4096, 0)
        return _ATTRIBUTES.pack(3600, 0, 0, _ROOT, self.size, blocks, *times, *times, *kind)


class Platter:
    """What a disk holds while a record of events is played to it, from the beginning on."""

    def __init__(self, size: int, events: list[Event]) -> None:
        self._content = bytearray(size)
        self._events = events
        self._unsafe: list[Event] = []
        self._position = 0

    def cut_at(self, position: int, chance: Random) -> bytes:
        """A disk whose power failed before that event; positions may only grow.

        A write that no flush has covered is there, or is not, or some of its sectors are.
        """
        self._play_to(position)
        content = bytearray(self._content)
        fate = chance.random()
        for written in self._unsafe:
            for start in range(0, len(written.data), SECTOR_SIZE):
                if chance.random() < fate:
                    piece = written.data[start : start + SECTOR_SIZE]
                    place = written.position + start
                    content[place : place + len(piece)] = piece
        return bytes(content)

    def _play_to(self, position: int) -> None:
        for event in self._events[self._position : position]:
            if event.data:
                self._unsafe.append(event)
                continue
            for written in self._unsafe:
                end = written.position + len(written.data)
                self._content[written.position : end] = written.data
            self._unsafe.clear()
        self._position = position


@contextmanager
def loop_device(file: Path) -> Iterator[str]:
    device = _run("losetup", "--find", "--show", str(file)).strip()
    try:
        yield device
    finally:
        _run("losetup", "--detach", device)


@contextmanager
def mounted(device: str, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    _run("mount", "-t", "ext4", device, str(place))
    try:
        yield place
    finally:
        _run("umount", str(place))


def make_file_system(device: str) -> None:
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", device)


def _mount_fuse(fuse: int, file: Path) -> None:
    c = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fuse},rootmode={_FILE_MODE:o},user_id=0,group_id=0"
    if c.mount(b"roquet", str(file).encode(), b"fuse", 0, options.encode()) != 0:
        raise DeviceFailed(f"mount: {os.strerror(ctypes.get_errno())}")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeviceFailed(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
