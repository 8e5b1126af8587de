"""The file of users: read at the start, watched for changes, written on request.

Like the files of accounts, an invalid file changes nothing: the rules in force stay. A missing file
has no users; the first ones come from `initAuthenticationUser` and from the credentials of the
broker itself, as in Apache.
"""

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Protocol, final

from roquet.access.accounts import OwnAccount
from roquet.access.errors import BadRules, RulesNotSaved
from roquet.access.user_file import (
    Edit,
    UsersDocument,
    UserType,
    create_user,
    find_user,
    read_users,
    user_rules,
    write_users,
)
from roquet.access.users import UserRules
from roquet.disk import Disk, replace_file
from roquet.net.service import to_its_end
from roquet.protocol.bodies import brokers as bodies

log = logging.getLogger(__name__)

FILE_NAME: Final = "users.yml"
_FILE_SIZE_MAX: Final = 16 * 1024 * 1024
_WATCH_PERIOD_S: Final = 1.0


class UserSettings(Protocol):
    """The settings of a broker about users."""

    @property
    def authentication(self) -> bool: ...

    @property
    def authorization(self) -> bool: ...

    @property
    def first_user(self) -> bodies.User | None: ...

    @property
    def own_account(self) -> OwnAccount | None: ...


def open_user_store(settings: UserSettings, path: Path, disk: Disk) -> "UserStore | None":
    """None for a broker without users. Raises BadRules and RulesNotSaved."""
    if not settings.authentication:
        if settings.authorization:
            raise BadRules(None, "authorizationEnabled needs authenticationEnabled=true as well")
        return None
    store = UserStore(path, disk)
    store.add_missing(_first_users(settings))
    return store


def _first_users(settings: UserSettings) -> Iterable[bodies.User]:
    first, own = settings.first_user, settings.own_account
    if first is not None:
        yield bodies.User(
            username=first.username, password=first.password, user_type=UserType.SUPER.value
        )
    if own is not None:
        yield bodies.User(
            username=own.access_key, password=own.secret_key, user_type=UserType.SUPER.value
        )


class _Stamp(NamedTuple):
    size: int
    modified_ms: int


@final
class UserStore:
    """`rules` are those in force, `document` is the file they came from."""

    rules: UserRules
    document: UsersDocument

    def __init__(self, path: Path, disk: Disk) -> None:
        """Raises BadRules."""
        self.path = path
        self._disk = disk
        self._changing = asyncio.Lock()
        # Before the file is read: a later write is noticed the next time.
        self._seen = _stamp(path, disk)
        self._take(read_user_file(path, disk))

    def add_missing(self, users: Iterable[bodies.User]) -> None:
        """Users that exist stay as they are. Raises BadRules and RulesNotSaved."""
        for user in users:
            if find_user(self.document, user.username) is None:
                after = create_user(self.document, user)
                self._take(write_user_file(self.path, self._disk, after))
                log.info("created super user %s", user.username)
        self._seen = _stamp(self.path, self._disk)
        if not self.document.users:
            log.warning(
                "no user exists, so all requests are refused: set initAuthenticationUser, or add"
                " one with `roquet account user add NAME --super --users-file %s`",
                self.path,
            )

    async def watch(self) -> None:
        """Reloads a changed file, for ever."""
        while True:
            await asyncio.sleep(_WATCH_PERIOD_S)
            await self.reload_if_changed()

    async def reload_if_changed(self) -> None:
        """Applies what is in the file now, if it was written since."""
        async with self._changing:
            try:
                stamp = _stamp(self.path, self._disk)
                if stamp == self._seen:
                    return
                self._seen = stamp
                document = await to_its_end(read_user_file, self.path, self._disk)
            except (BadRules, OSError) as error:
                log.error("keeping the previous users: %s", error)  # noqa: TRY400  The text is enough.
                return
            self._take(document)
            log.info("reloaded %d users", len(self.rules.users))

    async def change(self, edit: Edit) -> None:
        """Returns when a change survives a power cut, and is in force.

        Raises what `edit` raises, BadRules and RulesNotSaved; then nothing has changed.
        """
        async with self._changing:
            document = edit(read_user_file(self.path, self._disk))
            self._take(await to_its_end(write_user_file, self.path, self._disk, document))
            self._seen = _stamp(self.path, self._disk)

    def _take(self, document: UsersDocument) -> None:
        self.rules = user_rules(document)
        self.document = document


def read_user_file(path: Path, disk: Disk) -> UsersDocument:
    """A valid one; empty if there is no file. Raises BadRules."""
    try:
        stamp = _stamp(path, disk)
        if stamp is None:
            return UsersDocument()
        if stamp.size > _FILE_SIZE_MAX:
            raise BadRules(path, f"over the limit of {_FILE_SIZE_MAX} bytes")
        descriptor = disk.open(path, writable=False)
        try:
            content = disk.read(descriptor, 0, _FILE_SIZE_MAX)
        finally:
            disk.close(descriptor)
    except OSError as error:
        raise BadRules(path, str(error)) from None
    try:
        document = read_users(content)
        user_rules(document)
    except BadRules as error:
        raise BadRules(path, error.reason) from None
    return document


def write_user_file(path: Path, disk: Disk, document: UsersDocument) -> UsersDocument:
    """What was written. Raises BadRules and RulesNotSaved."""
    user_rules(document)
    try:
        replace_file(disk, path, write_users(document))
    except OSError as error:
        raise RulesNotSaved(path, str(error)) from error
    return document


def _stamp(path: Path, disk: Disk) -> _Stamp | None:
    """None if there is no file. Raises OSError."""
    if not disk.exists(path.parent):
        return None
    for entry in disk.entries(path.parent):
        if entry.name == path.name and not entry.is_directory:
            return _Stamp(entry.size, entry.modified_ms)
    return None
