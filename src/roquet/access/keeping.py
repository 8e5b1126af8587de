"""Files of accounts: read at the start, looked at again all the time, written when asked to.

A file that cannot be obeyed changes nothing: the rules of before go on to count, and the log says
so, once for each state of the file.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol, final

import msgspec
from msgspec.structs import replace

from roquet.access.accounts import AccessRules
from roquet.access.changes import Changed, Documents
from roquet.access.errors import BadRules, RulesNotSaved
from roquet.access.rules_text import RulesDocument, read_document, rules_of, write_document
from roquet.clock import Clock
from roquet.disk import Disk, replace_file
from roquet.net.threads import to_its_end
from roquet.protocol.bodies.body import DataVersion

log = logging.getLogger(__name__)

FILE_SIZE_MAX: Final = 16 * 1024 * 1024
_LOOK_PERIOD_S: Final = 1.0
_SUFFIXES: Final = (".yml", ".yaml")
# Beside accounts, Apache's tools have their own key there.
_TOOLS_FILE: Final = "tools.yml"


class Places(msgspec.Struct, frozen=True):
    """Where accounts are: in one file, and in all those of a directory, if there is one."""

    file: Path
    directory: Path | None = None


def apache_places(home: Path) -> Places:
    """Where an Apache broker keeps them."""
    return Places(home / "conf" / "plain_acl.yml", home / "conf" / "acl")


class AccessSettings(Protocol):
    """What the settings of a server say about accounts."""

    @property
    def access_control(self) -> bool: ...

    @property
    def accounts_file(self) -> Path | None: ...

    @property
    def home(self) -> Path | None: ...


def kept_accounts(settings: AccessSettings, disk: Disk, clock: Clock) -> "KeptAccounts | None":
    """None for a server without access control. Raises BadRules."""
    if not settings.access_control:
        return None
    if settings.accounts_file is not None:
        return KeptAccounts(Places(settings.accounts_file), disk, clock)
    if settings.home is not None:
        return KeptAccounts(apache_places(settings.home), disk, clock)
    raise BadRules(
        None, "aclEnable needs a file of accounts: set aclFile, give --acl-file, or ROCKETMQ_HOME"
    )


class _Stamp(msgspec.Struct, frozen=True):
    """What a directory says of a file: another one means that it was written."""

    path: Path
    size: int
    modified_ms: int


class _Read(msgspec.Struct, frozen=True):
    documents: dict[Path, RulesDocument]
    rules: AccessRules


@final
class KeptAccounts:
    """`rules` are those that count now, `documents` the files they came from."""

    def __init__(self, places: Places, disk: Disk, clock: Clock) -> None:
        """Raises BadRules, also if there is no file at all."""
        self._places = places
        self._disk = disk
        self._clock = clock
        self._changing = asyncio.Lock()
        # Before the files: what is written meanwhile is seen the next time.
        self._seen = _stamps(places, disk)
        self._take(read_accounts(places, disk))

    rules: AccessRules
    documents: Mapping[Path, RulesDocument]

    @property
    def default_file(self) -> Path:
        return self._places.file

    def versions(self) -> dict[Path, DataVersion]:
        return {path: document.version for path, document in self.documents.items()}

    async def keep_looking(self) -> None:
        """Never returns."""
        while True:
            await asyncio.sleep(_LOOK_PERIOD_S)
            await self.look_again()

    async def look_again(self) -> None:
        """Obeys what is in the files now, if they were written since."""
        async with self._changing:
            try:
                stamps = _stamps(self._places, self._disk)
                if stamps == self._seen:
                    return
                self._seen = stamps
                read = await to_its_end(read_accounts, self._places, self._disk)
            except (BadRules, OSError) as error:
                log.error("going on with the accounts of before: %s", error)  # noqa: TRY400  It says it all.
                return
            self._take(read)
            log.info("read accounts again: %d of them", len(self.rules.accounts))

    async def change(self, edit: Callable[[Documents], Changed]) -> None:
        """Returns when a change survives a power cut, and counts.

        `edit` gets what the files say now. Raises what it raises, BadRules and RulesNotSaved; then
        nothing has changed.
        """
        async with self._changing:
            now_ms = self._clock.now_ms()
            self._take(await to_its_end(write_change, self._places, self._disk, edit, now_ms))
            self._seen = _stamps(self._places, self._disk)

    def _take(self, read: _Read) -> None:
        self.rules = read.rules
        self.documents = read.documents
        for addresses in read.rules.trusted_addresses:
            log.warning("whoever comes from %s needs no account", addresses.text)


def write_change(
    places: Places, disk: Disk, edit: Callable[[Documents], Changed], now_ms: int
) -> _Read:
    """What the files say afterwards. Raises what `edit` raises, BadRules and RulesNotSaved."""
    before = _documents(places, disk)
    path, document = edit(before)
    version = replace(document.version, counter=document.version.counter + 1, timestamp=now_ms)
    content = write_document(replace(document, data_version=[version]))
    # Read as it will be, so that nothing is written that cannot be.
    documents = before | {path: read_document(content)}
    rules = rules_of(documents)
    try:
        replace_file(disk, path, content)
    except OSError as error:
        raise RulesNotSaved(path, str(error)) from error
    return _Read(documents, rules)


def read_accounts(places: Places, disk: Disk) -> _Read:
    """Raises BadRules, also if there is no file at all."""
    documents = _documents(places, disk)
    if not documents:
        raise BadRules(places.file, "no such file; `roquet account add` makes one")
    return _Read(documents, rules_of(documents))


def _documents(places: Places, disk: Disk) -> dict[Path, RulesDocument]:
    """Raises BadRules."""
    documents: dict[Path, RulesDocument] = {}
    try:
        for stamp in _stamps(places, disk):
            if stamp.size > FILE_SIZE_MAX:
                raise BadRules(stamp.path, f"over the limit of {FILE_SIZE_MAX} bytes")
            try:
                documents[stamp.path] = read_document(_content(disk, stamp.path))
            except BadRules as error:
                raise BadRules(stamp.path, error.reason) from None
    except OSError as error:
        raise BadRules(places.file, str(error)) from None
    return documents


def _content(disk: Disk, path: Path) -> bytes:
    descriptor = disk.open(path, writable=False)
    try:
        return disk.read(descriptor, 0, FILE_SIZE_MAX)
    finally:
        disk.close(descriptor)


def _stamps(places: Places, disk: Disk) -> list[_Stamp]:
    """Of all files that there are, the default one first. Raises OSError."""
    found = [
        _Stamp(places.file, entry.size, entry.modified_ms)
        for entry in disk.entries(places.file.parent)
        if entry.name == places.file.name and not entry.is_directory
    ]
    for entry in disk.entries(places.directory) if places.directory else ():
        is_ours = entry.name.endswith(_SUFFIXES) and entry.name != _TOOLS_FILE
        if is_ours and not entry.is_directory and places.directory is not None:
            found.append(_Stamp(places.directory / entry.name, entry.size, entry.modified_ms))
    return found
