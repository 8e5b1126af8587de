"""The descriptors and mappings of one process, and for what the last ones are reserved.

A broker with thousands of queues keeps thousands of files open, and thousands of clients need a
descriptor each. Neither kind may take everything:

    0                                                  RLIMIT_NOFILE
    | files that are kept open, connections | local | spare |

Each of the two always has a share that the other one cannot take. `local` is for connections from
this machine, so that an operator can always connect; `spare` is for what is open for a moment only:
state files, directories that are synced, modules.

Mappings run out less visibly (vm.max_map_count): memory is mapped, too, so the interpreter and
libraries fail where no request can be refused any more, and the process ends. The last ones are
therefore reserved for them.
"""

import errno
import mmap
import resource
import sys
from pathlib import Path
from typing import Final, final
from weakref import WeakSet

import msgspec

# What each of files and connections always has.
_SHARE: Final = 4
_SHARE_MAX: Final = 4096
# What is reserved for connections from this machine, and for what is open for a moment.
_LAST_SHARE: Final = 16
_LAST_MAX: Final = 64
# Mappings that are left to memory, threads and libraries: heaps of gigabytes take some thousands.
_MAP_SHARE: Final = 8
_MAP_COUNT_MAX: Final = 4096
# Mappings that are not files are counted again when there are this many more or fewer files, and
# this many when there seem to be none left. Counting takes milliseconds.
_RECOUNT_AFTER: Final = 1024
_RECOUNT_AFTER_FULL: Final = 64
# Above this share of what they may have, files that are not used are closed early.
_BUSY_PERCENT: Final = 75

_MAP_LIMIT_PATH: Final = Path("/proc/sys/vm/max_map_count")
_MAPS_PATH: Final = Path("/proc/self/maps")
# The default of the kernel, for systems that do not report it.
_MAP_LIMIT_DEFAULT: Final = 65_530
# A mapping of older Pythons has a descriptor of its own.
_DESCRIPTORS_PER_MAPPING: Final = 0 if sys.version_info >= (3, 13) else 1


class DescriptorLimits(msgspec.Struct, frozen=True):
    """How the descriptors of a process are divided; `count` is RLIMIT_NOFILE."""

    count: int

    @property
    def last_count(self) -> int:
        """How many are reserved for connections from this machine, and as many to spare."""
        return min(self.count // _LAST_SHARE, _LAST_MAX)

    @property
    def shared_end(self) -> int:
        """Kept files, and connections of other machines, get numbers below this."""
        return self.count - 2 * self.last_count

    @property
    def kind_max(self) -> int:
        """How many descriptors kept files may have, or connections."""
        return self.shared_end - min(self.count // _SHARE, _SHARE_MAX)

    def may_connect(self, descriptor: int, *, file_count: int, is_local: bool) -> bool:
        """Whether a connection may keep its descriptor, while files have `file_count`.

        The system gives the smallest free number, so it shows how many are in use.
        """
        beyond = self.last_count if is_local else 0
        return (
            descriptor < self.shared_end + beyond
            and descriptor - file_count < self.kind_max + beyond
        )


def descriptor_limits() -> DescriptorLimits:
    """It can change while the process runs."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DescriptorLimits(sys.maxsize if limit == resource.RLIM_INFINITY else limit)


def map_count_max(limit: int) -> int:
    """How many mappings there may be before files get no more of them."""
    return limit - min(limit // _MAP_SHARE, _MAP_COUNT_MAX)


def map_limit() -> int:
    """How many mappings a process may have."""
    try:
        return int(_MAP_LIMIT_PATH.read_bytes())
    except (OSError, ValueError):
        return _MAP_LIMIT_DEFAULT


class KeptLimit(msgspec.Struct, frozen=True):
    """How many files can be kept open and mapped at once, and the setting that limits them."""

    count: int
    setting: str


def kept_limit() -> KeptLimit:
    """The narrower one of both. Other connections and files are not counted."""
    descriptors, maps = descriptor_limits(), map_limit()
    return min(
        KeptLimit(
            descriptors.kind_max // (1 + _DESCRIPTORS_PER_MAPPING),
            f"ulimit -n is {descriptors.count}",
        ),
        KeptLimit(map_count_max(maps), f"sysctl vm.max_map_count is {maps}"),
        key=lambda limit: limit.count,
    )


def is_near(file_count: int, limit: KeptLimit) -> bool:
    return file_count * 100 >= limit.count * _BUSY_PERCENT


def _map_count_now() -> int:
    try:
        return _MAPS_PATH.read_bytes().count(b"\n")
    except OSError:
        return 0


@final
class KeptFiles:
    """The files of this process that stay open until they are idle.

    Opened by one thread and closed by another: every step is a single operation on a set.
    """

    def __init__(self) -> None:
        self._descriptors: set[int] = set()
        self._mappings: WeakSet[mmap.mmap] = WeakSet()
        self._map_limit = 0
        # Mappings that are not those of kept files, and how many of those there were.
        self._other_maps = 0
        self._counted_at = -_RECOUNT_AFTER
        # How often one more was refused.
        self.refused_count = 0

    def __len__(self) -> int:
        return len(self._descriptors)

    @property
    def descriptor_count(self) -> int:
        return len(self._descriptors) + _DESCRIPTORS_PER_MAPPING * len(self._mappings)

    @property
    def is_busy(self) -> bool:
        """Whether so many are open that idle ones should be closed early."""
        descriptors_max = descriptor_limits().kind_max
        maps_max = map_count_max(self._map_limit or map_limit()) - self._other_maps
        return (
            self.descriptor_count * 100 >= descriptors_max * _BUSY_PERCENT
            or len(self._mappings) * 100 >= maps_max * _BUSY_PERCENT
        )

    def add(self, descriptor: int) -> None:
        """Raises OSError if it is a reserved one; then the caller closes it."""
        limits = descriptor_limits()
        # Its mapping may need another one.
        count = self.descriptor_count + 1 + _DESCRIPTORS_PER_MAPPING
        last = descriptor + _DESCRIPTORS_PER_MAPPING
        if count > limits.kind_max or last >= limits.shared_end:
            self.refused_count += 1
            raise OSError(
                errno.EMFILE,
                f"{len(self)} queue files are open, and the other descriptors of"
                f" {limits.count} are reserved for connections",
            )
        self._descriptors.add(descriptor)

    def discard(self, descriptor: int) -> None:
        """Called before it is closed: the next file may get the same number."""
        self._descriptors.discard(descriptor)

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._descriptors

    def check_mapping(self) -> None:
        """Raises OSError if one more mapping would be one that is reserved for memory."""
        count = len(self._mappings)
        if abs(count - self._counted_at) >= _RECOUNT_AFTER:
            self._count_others()
        if self._is_mapped_out(count):
            # An operator may have raised it, and memory may have been given back.
            self._map_limit = map_limit()
            if abs(count - self._counted_at) >= _RECOUNT_AFTER_FULL:
                self._count_others()
        if self._is_mapped_out(count):
            self.refused_count += 1
            raise OSError(
                errno.ENOMEM,
                f"{count} queue files are mapped, and the other mappings of"
                f" {self._map_limit} are reserved for memory",
            )

    def mapped(self, mapping: mmap.mmap) -> None:
        self._mappings.add(mapping)

    def _is_mapped_out(self, count: int) -> bool:
        return self._other_maps + count >= map_count_max(self._map_limit)

    def _count_others(self) -> None:
        self._map_limit = map_limit()
        self._counted_at = len(self._mappings)
        self._other_maps = max(0, _map_count_now() - self._counted_at)


# Of the process, as are the limits: several servers in one process share them.
KEPT_FILES: Final = KeptFiles()


def is_short_of_descriptors(error: OSError) -> bool:
    """Whether `error` means that this process, or the system, has too many files open.

    Only opening a file fails so, never reading or writing it: no data is affected.
    """
    return error.errno in (errno.EMFILE, errno.ENFILE)


def shortage_remedy(error: OSError) -> str | None:
    """What an operator does about a file that could not be opened or mapped for lack of room in
    this process; None for every other error.
    """
    if is_short_of_descriptors(error):
        return "raise ulimit -n"
    if error.errno == errno.ENOMEM:
        return "raise sysctl vm.max_map_count"
    return None
