"""The files of accounts: read at the start, watched for changes, written on request.

What an operator changes is a pure function from the documents before to one
after (`put_account`, `delete_account`, `trust_addresses`).
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

import msgspec
from msgspec.structs import asdict, replace

from roquet.access.accounts import AccessRules
from roquet.access.acl_file import (
    RulesDocument,
    read_document,
    rules_of,
    write_document,
)
from roquet.access.errors import BadRules, UnknownAccount
from roquet.access.rules_files import RulesStore, Stamp, file_stamp, read_content, save_content
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.brokers import AccountConfig

log = logging.getLogger(__name__)

_SUFFIXES: Final = (".yml", ".yaml")
# Apache's tools have their own key beside the accounts.
_TOOLS_FILE: Final = "tools.yml"


class AccountPaths(msgspec.Struct, frozen=True):
    """The files of accounts: one, and all those of a directory, if there is one."""

    file: Path
    directory: Path | None = None


def apache_account_paths(home: Path) -> AccountPaths:
    """The files of an Apache broker."""
    return AccountPaths(home / "conf" / "plain_acl.yml", home / "conf" / "acl")


class AccessSettings(Protocol):
    """The settings of a server about accounts."""

    @property
    def access_control(self) -> bool: ...

    @property
    def accounts_file(self) -> Path | None: ...

    @property
    def home(self) -> Path | None: ...


def open_account_store(settings: AccessSettings, disk: Disk, clock: Clock) -> "AccountStore | None":
    """None for a server without access control. Raises BadRules."""
    if not settings.access_control:
        return None
    if settings.accounts_file is not None:
        return AccountStore(AccountPaths(settings.accounts_file), disk, clock)
    if settings.home is not None:
        return AccountStore(apache_account_paths(settings.home), disk, clock)
    raise BadRules(
        None, "aclEnable needs a file of accounts: set aclFile, give --acl-file, or ROCKETMQ_HOME"
    )


Documents = Mapping[Path, RulesDocument]


class Changed(NamedTuple):
    path: Path
    document: RulesDocument


class _Read(msgspec.Struct, frozen=True):
    documents: dict[Path, RulesDocument]
    rules: AccessRules


@final
class AccountStore(RulesStore[_Read]):
    """`rules` are those in force, `documents` the files they came from."""

    kind = "accounts"
    rules: AccessRules
    documents: Mapping[Path, RulesDocument]

    def __init__(self, paths: AccountPaths, disk: Disk, clock: Clock) -> None:
        """Raises BadRules, also if there is no file."""
        self._paths = paths
        self._disk = disk
        self._clock = clock
        super().__init__()

    @property
    def default_file(self) -> Path:
        return self._paths.file

    def versions(self) -> dict[Path, DataVersion]:
        return {path: document.version for path, document in self.documents.items()}

    async def put(self, changes: AccountConfig) -> None:
        """See `put_account`. Raises like `change`."""
        await self.change(partial(put_account, default=self.default_file, changes=changes))

    async def delete(self, access_key: str) -> None:
        """Raises UnknownAccount, and like `change`."""
        await self.change(partial(delete_account, access_key=access_key))

    async def trust(self, addresses: list[str], path: Path | None) -> None:
        """See `trust_addresses`; without a path in the default file. Raises like `change`."""
        place = path or self.default_file
        await self.change(partial(trust_addresses, path=place, addresses=addresses))

    async def change(self, edit: Callable[[Documents], Changed]) -> None:
        """Returns when a change survives a power cut, and is in force.

        `edit` gets the documents of the files. Raises what it raises, BadRules and RulesNotSaved;
        then nothing has changed.
        """
        now_ms = self._clock.now_ms()
        await self._change(lambda: write_change(self._paths, self._disk, edit, now_ms))

    def _stamps(self) -> list[Stamp]:
        return _stamps(self._paths, self._disk)

    def _read(self) -> _Read:
        return read_accounts(self._paths, self._disk)

    def _take(self, read: _Read) -> int:
        self.rules = read.rules
        self.documents = read.documents
        for addresses in read.rules.trusted_addresses:
            log.warning("requests from %s need no account", addresses.text)
        return len(read.rules.accounts)


def write_change(
    paths: AccountPaths, disk: Disk, edit: Callable[[Documents], Changed], now_ms: int
) -> _Read:
    """The files afterwards. Raises what `edit` raises, BadRules and RulesNotSaved."""
    before = _documents(paths, disk)
    path, document = edit(before)
    version = replace(document.version, counter=document.version.counter + 1, timestamp=now_ms)
    content = write_document(replace(document, data_version=[version]))
    # Read before it is written, so that no invalid file is written.
    documents = before | {path: read_document(content)}
    rules = rules_of(documents)
    save_content(disk, path, content)
    return _Read(documents, rules)


def read_accounts(paths: AccountPaths, disk: Disk) -> _Read:
    """Raises BadRules, also if there is no file."""
    documents = _documents(paths, disk)
    if not documents:
        raise BadRules(paths.file, "no such file; `roquet account add` creates one")
    return _Read(documents, rules_of(documents))


def put_account(documents: Documents, default: Path, changes: AccountConfig) -> Changed:
    """Changes an account in its file, or adds one to the default file.

    Fields that are None stay unchanged; `admin` is always set.
    """
    path = _path_of(documents, changes.access_key)
    if path is None:
        document = documents.get(default, RulesDocument())
        return Changed(default, _with_accounts(document, *(document.accounts or ()), changes))
    document = documents[path]
    given = {name: value for name, value in asdict(changes).items() if value is not None}
    return Changed(
        path,
        _with_accounts(
            document,
            *(
                replace(each, **given) if each.access_key == changes.access_key else each
                for each in document.accounts or ()
            ),
        ),
    )


def delete_account(documents: Documents, access_key: str) -> Changed:
    """Raises UnknownAccount."""
    path = _path_of(documents, access_key)
    if path is None:
        raise UnknownAccount(access_key)
    document = documents[path]
    rest = [each for each in document.accounts or () if each.access_key != access_key]
    return Changed(path, _with_accounts(document, *rest))


def trust_addresses(documents: Documents, path: Path, addresses: list[str]) -> Changed:
    """Raises BadRules for any other file: no request may choose a path."""
    if path not in documents:
        raise BadRules(None, f"{str(path)[:200]!r} is not a file of accounts of this server")
    return Changed(path, replace(documents[path], global_white_remote_addresses=addresses))


def _path_of(documents: Documents, access_key: str) -> Path | None:
    for path, document in documents.items():
        if any(each.access_key == access_key for each in document.accounts or ()):
            return path
    return None


def _with_accounts(document: RulesDocument, *accounts: AccountConfig) -> RulesDocument:
    return replace(document, accounts=list(accounts))


def _documents(paths: AccountPaths, disk: Disk) -> dict[Path, RulesDocument]:
    """Raises BadRules."""
    documents: dict[Path, RulesDocument] = {}
    try:
        for stamp in _stamps(paths, disk):
            try:
                documents[stamp.path] = read_document(read_content(disk, stamp))
            except BadRules as error:
                raise BadRules(stamp.path, error.reason) from None
    except OSError as error:
        raise BadRules(paths.file, str(error)) from None
    return documents


def _stamps(paths: AccountPaths, disk: Disk) -> list[Stamp]:
    """Of all existing files, the default one first. Raises OSError."""
    default = file_stamp(disk, paths.file)
    found = [] if default is None else [default]
    for entry in disk.entries(paths.directory) if paths.directory else ():
        is_ours = entry.name.endswith(_SUFFIXES) and entry.name != _TOOLS_FILE
        if is_ours and not entry.is_directory and paths.directory is not None:
            found.append(Stamp(paths.directory / entry.name, entry.size, entry.modified_ms))
    return found
