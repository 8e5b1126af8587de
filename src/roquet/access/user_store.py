"""The file of users: read at the start, watched for changes, written on request.

A missing file has no users; the first ones come from `initAuthenticationUser` and from the
credentials of the broker itself, as in Apache.
"""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final

from roquet.access.accounts import OwnAccount
from roquet.access.errors import BadRules
from roquet.access.rules_files import RulesStore, Stamp, file_stamp, read_content, save_content
from roquet.access.user_file import (
    Edit,
    UsersDocument,
    UserType,
    create_user,
    delete_acl,
    delete_user,
    find_user,
    known_acl,
    listed_acls,
    listed_users,
    put_acl,
    read_users,
    update_user,
    user_rules,
    write_users,
)
from roquet.access.users import UserRules
from roquet.disk import Disk
from roquet.protocol.bodies import brokers as bodies

log = logging.getLogger(__name__)

FILE_NAME: Final = "users.yml"


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


@final
class UserStore(RulesStore[UsersDocument]):
    """`rules` are those in force, `document` is the file they came from."""

    kind = "users"
    rules: UserRules
    document: UsersDocument

    def __init__(self, path: Path, disk: Disk) -> None:
        """Raises BadRules."""
        self.path = path
        self._disk = disk
        super().__init__()

    def add_missing(self, users: Iterable[bodies.User]) -> None:
        """Users that exist stay as they are. Raises BadRules and RulesNotSaved."""
        for user in users:
            if find_user(self.document, user.username) is None:
                after = create_user(self.document, user)
                self._take(write_user_file(self.path, self._disk, after))
                log.info("created super user %s", user.username)
        self._seen = self._stamps()
        if not self.document.users:
            log.warning(
                "no user exists, so all requests are refused: set initAuthenticationUser, or add"
                " one with `roquet account user add NAME --super --users-file %s`",
                self.path,
            )

    def find(self, name: str | None) -> bodies.User | None:
        return find_user(self.document, name)

    def listed(self, part: str | None) -> list[bodies.User]:
        """All, or those whose names contain a text."""
        return listed_users(self.document, part)

    def acl(self, subject: str) -> bodies.Acl:
        """Raises UnknownUser, UnknownPolicy and BadRules."""
        return known_acl(self.document, subject)

    def listed_acls(self, subject_part: str | None, resource_part: str | None) -> list[bodies.Acl]:
        """All, or those whose subjects and resources contain these texts."""
        return listed_acls(self.document, subject_part, resource_part)

    # See the functions of the same names. All raise like `change`.

    async def create(self, user: bodies.User) -> None:
        await self.change(partial(create_user, user=user))

    async def update(self, user: bodies.User) -> None:
        await self.change(partial(update_user, user=user))

    async def delete(self, name: str) -> None:
        await self.change(partial(delete_user, name=name))

    async def put_acl(self, acl: bodies.Acl) -> None:
        await self.change(partial(put_acl, acl=acl))

    async def delete_acl(self, subject: str, resource: str | None, policy_type: str | None) -> None:
        await self.change(
            partial(delete_acl, subject=subject, resource=resource, policy_type=policy_type)
        )

    async def change(self, edit: Edit) -> None:
        """Returns when a change survives a power cut, and is in force.

        Raises what `edit` raises, BadRules and RulesNotSaved; then nothing has changed.
        """
        await self._change(lambda: write_user_file(self.path, self._disk, edit(self._read())))

    def _stamps(self) -> list[Stamp]:
        stamp = file_stamp(self._disk, self.path)
        return [] if stamp is None else [stamp]

    def _read(self) -> UsersDocument:
        return read_user_file(self.path, self._disk)

    def _take(self, read: UsersDocument) -> int:
        self.rules = user_rules(read)
        self.document = read
        return len(self.rules.users)


def read_user_file(path: Path, disk: Disk) -> UsersDocument:
    """A valid one; empty if there is no file. Raises BadRules."""
    try:
        stamp = file_stamp(disk, path)
        if stamp is None:
            return UsersDocument()
        content = read_content(disk, stamp)
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
    save_content(disk, path, write_users(document))
    return document
