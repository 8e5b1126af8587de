"""`roquet account user`: users of 5.x and their policies, in a file or at running brokers.

As with accounts, a password is generated here, unless one is given, and printed once.
"""

import secrets
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol, final

from roquet.access.user_file import (
    UsersDocument,
    create_user,
    delete_acl,
    delete_user as delete_from,
    put_acl,
    update_user,
)
from roquet.access.user_store import read_user_file, write_user_file
from roquet.cli.admin_commands.commands import (
    Commands,
    Session,
    brokers_named,
    define_confirmation,
    is_confirmed,
)
from roquet.cli.admin_commands.failures import DONE, MISUSED, NOT_FOUND, Failed
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.users import (
    UserPolicy,
    UserSettings,
    acl_body,
    removed,
    settings_of_users,
    user_body,
)
from roquet.disk import SystemDisk
from roquet.reporting import Fact, Report, ReportTable

_PASSWORD_SIZE: Final = 24  # random bytes: too many to guess

_WHERE: Final = """\
With --users-file, users of a file, such as config/users.yml in the directory of a broker; a broker
reloads a change within a second. Without it, users of all registered brokers with
authenticationEnabled=true, Apache's of 5.x included.
"""


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    listing = commands.add("list", "List users and their policies.", _list, _WHERE)
    listing.add_argument("--filter", metavar="TEXT", help="Those with this text in their names.")
    _define_places(listing)
    show = commands.add("show", "Show a user and its policies.", _show, _WHERE)
    show.add_argument("user", metavar="NAME")
    _define_places(show)
    add = commands.add("add", "Add a user, and print its password.", _add, _WHERE)
    add.add_argument("user", metavar="NAME")
    _define_settings(add)
    _define_places(add)
    change = commands.add(
        "change", "Change a user; omitted settings stay unchanged.", _change, _WHERE
    )
    change.add_argument("user", metavar="NAME")
    _define_settings(change)
    change.add_argument(
        "--forget",
        action="append",
        default=[],
        metavar="RESOURCE",
        help="Remove the policy on this resource; all of them with ''. Can be repeated.",
    )
    change.add_argument("--new-password", action="store_true", help="Generate another password.")
    _define_places(change)
    copy = commands.add(
        "copy",
        "Copy users from a broker to another one, with their passwords and policies.",
        _copy,
        "A user that the target already has becomes what it is at the source.",
    )
    copy.add_argument("users", metavar="NAME", nargs="*", help="Default: all of them.")
    for word, what in (("from", "Have those of"), ("to", "Write to")):
        copy.add_argument(
            f"--{word}",
            required=True,
            dest=f"{word}_broker",
            metavar="BROKER",
            help=f"{what} this broker: its name, or host:port.",
        )
    remove = commands.add("remove", "Remove a user: its requests are rejected.", _remove, _WHERE)
    remove.add_argument("user", metavar="NAME")
    define_confirmation(remove)
    _define_places(remove)


def _define_places(parser: ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--users-file", type=Path, metavar="FILE", help="In this file, without a server."
    )
    where.add_argument("--cluster", help="At the brokers of this cluster only.")
    where.add_argument(
        "--broker", metavar="NAME", help="At this broker only: its name, or host:port."
    )


def _define_settings(parser: ArgumentParser) -> None:
    parser.add_argument("--password", help="The password. Default: a generated one.")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--super", action="store_true", default=None, help="May do everything.")
    kind.add_argument("--no-super", action="store_false", dest="super", default=None)
    status = parser.add_mutually_exclusive_group()
    status.add_argument("--enable", action="store_true", default=None, help="Accept its requests.")
    status.add_argument(
        "--disable",
        action="store_false",
        dest="enable",
        default=None,
        help="Reject its requests, and keep its policies.",
    )
    for word, what in (("allow", "Allow"), ("deny", "Deny")):
        parser.add_argument(
            f"--{word}",
            action="append",
            default=[],
            metavar="RESOURCE=ACTIONS",
            help=f"{what} actions on a resource, such as 'Topic:orders=Pub,Sub', 'Group:bill*=Sub'"
            " or 'Cluster:*=Get'; actions are Pub, Sub, Create, Update, Delete, Get, List and All."
            " Can be repeated.",
        )
    parser.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="The policies given here are for clients at this address or network only. Can be"
        " repeated.",
    )


class UserPlace(Protocol):
    """Raises RoquetError."""

    @property
    def name(self) -> str: ...

    async def users(self) -> Mapping[str, UserSettings]: ...

    async def put(self, name: str, settings: UserSettings, password: str | None) -> None: ...

    async def remove(self, name: str) -> None: ...


@final
class UsersFile:
    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._disk = SystemDisk()

    async def users(self) -> Mapping[str, UserSettings]:
        """Raises BadRules."""
        document = self._document()
        return settings_of_users(document.users, document.acls)

    async def put(self, name: str, settings: UserSettings, password: str | None) -> None:
        before = (await self.users()).get(name)
        change = create_user if before is None else update_user
        document = change(self._document(), user_body(name, settings, password))
        for gone in removed(before.policies if before else (), settings.policies):
            kind = "Default" if gone.is_default else None
            document = delete_acl(document, f"User:{name}", gone.resource, kind)
        if settings.policies:
            document = put_acl(document, acl_body(name, settings.policies))
        self._write(document)

    async def remove(self, name: str) -> None:
        self._write(delete_from(self._document(), name))

    def _document(self) -> UsersDocument:
        return read_user_file(self._path, self._disk)

    def _write(self, document: UsersDocument) -> None:
        write_user_file(self._path, self._disk, document)


@final
class UsersAtBroker:
    def __init__(self, admin: AsyncAdmin, broker: BrokerInfo) -> None:
        self.name = (
            broker.broker_name if broker.is_master else f"{broker.broker_name}:{broker.broker_id}"
        )
        self.users = partial(admin.broker_users, broker.address)
        self.remove = partial(admin.delete_user, broker.address)
        self._put = partial(admin.put_user, broker.address)

    async def put(self, name: str, settings: UserSettings, password: str | None) -> None:
        await self._put(name, settings, password=password)


async def _places(session: Session) -> list[UserPlace]:
    """As given: one file, one broker, or all of them. Raises Failed."""
    given = session.given
    if given.users_file is not None:
        return [UsersFile(given.users_file)]
    if given.broker is not None:
        found = await brokers_named(session, given.broker)
    else:
        found = await session.admin.brokers(with_state=False)
        found = [each for each in found if given.cluster in (None, each.cluster)]
    if not found:
        raise Failed("no broker is registered; see: roquet cluster", NOT_FOUND)
    return [UsersAtBroker(session.admin, each) for each in found]


async def _list(session: Session) -> int:
    found = [
        (place.name, name, settings)
        for place in await _places(session)
        for name, settings in (await place.users()).items()
        if (session.given.filter or "") in name
    ]
    session.finish(_report({}, found))
    return DONE


async def _show(session: Session) -> int:
    name = session.given.user
    session.finish(
        _report({"user": name}, [(at.name, name, it) for at, it in await _known(session)])
    )
    return DONE


async def _add(session: Session) -> int:
    given = session.given
    settings = changed_user(UserSettings(), given)
    places = await _places(session)
    for place in places:
        if given.user in await place.users():
            raise Failed(
                f"user {given.user!r} already exists at {place.name}; change it with:"
                " roquet account user change"
            )
    password = given.password or secrets.token_urlsafe(_PASSWORD_SIZE)
    for number, place in enumerate(places):
        await place.put(given.user, settings, password)
        if number == 0:
            session.finish(Report({"user": given.user, "password": password}))
    return DONE


async def _change(session: Session) -> int:
    given = session.given
    password = given.password
    if given.new_password:
        password = secrets.token_urlsafe(_PASSWORD_SIZE)
    found = [(place, changed_user(before, given)) for place, before in await _known(session)]
    for place, settings in found:
        await place.put(given.user, settings, password)
    facts: dict[str, Fact] = {"user": given.user}
    if given.new_password:
        facts["password"] = password
    session.finish(_report(facts, [(place.name, given.user, after) for place, after in found]))
    return DONE


async def _copy(session: Session) -> int:
    given = session.given
    source, *_ = await brokers_named(session, given.from_broker)
    # With its slaves, which keep users of their own.
    targets = await brokers_named(session, given.to_broker)
    known = await session.admin.broker_users(source.address)
    for name in given.users:
        if name not in known:
            raise Failed(f"user {name!r} does not exist at {given.from_broker}", NOT_FOUND)
    names = given.users or sorted(known)
    for target in targets:
        for name in names:
            await session.admin.copy_user(source.address, target.address, name)
    found = [
        (UsersAtBroker(session.admin, target).name, name, known[name])
        for target in targets
        for name in names
    ]
    session.finish(_report({}, found))
    return DONE


async def _remove(session: Session) -> int:
    name = session.given.user
    found = await _known(session)
    session.finish(_report({"user": name}, [(at.name, name, settings) for at, settings in found]))
    if is_confirmed(session, f"Remove user {name}?"):
        for place, _ in found:
            await place.remove(name)
        session.reporter.say("removed")
    return DONE


async def _known(session: Session) -> list[tuple[UserPlace, UserSettings]]:
    """Where the given user is. Raises Failed if it exists nowhere."""
    name = session.given.user
    found = [(place, (await place.users()).get(name)) for place in await _places(session)]
    known = [(place, settings) for place, settings in found if settings is not None]
    if not known:
        raise Failed(f"user {name!r} does not exist; see: roquet account user list", NOT_FOUND)
    return known


def _report(facts: dict[str, Fact], found: Iterable[tuple[str, str, UserSettings]]) -> Report:
    found = list(found)
    users = ReportTable(
        "users",
        ("user", "super", "enabled", "at"),
        [(name, it.is_super, it.is_enabled, at) for at, name, it in found],
    )
    columns = ("user", "resource", "actions", "decision", "sources", "default", "at")
    policies = ReportTable(
        "policies",
        columns,
        [(name, *_policy_row(each), at) for at, name, it in found for each in it.policies],
    )
    return Report(facts, [users, policies])


def _policy_row(policy: UserPolicy) -> tuple[Fact, ...]:
    return (
        policy.resource,
        ", ".join(policy.actions),
        "Allow" if policy.is_allowed else "Deny",
        ", ".join(policy.source_ips) or None,
        policy.is_default,
    )


def changed_user(settings: UserSettings, given: Namespace) -> UserSettings:
    """`settings` with the given changes. Raises Failed."""
    policies = {(each.is_default, each.resource): each for each in settings.policies}
    for resource in getattr(given, "forget", ()):
        if not resource:
            policies.clear()
        elif policies.pop((False, resource), None) is None:
            raise Failed(f"the user has no policy on {resource!r}", NOT_FOUND)
    for is_allowed, texts in ((True, given.allow), (False, given.deny)):
        for policy in (_policy(text, given, is_allowed=is_allowed) for text in texts):
            policies[False, policy.resource] = policy
    return replace(
        settings,
        is_super=settings.is_super if given.super is None else given.super,
        is_enabled=settings.is_enabled if given.enable is None else given.enable,
        policies=tuple(policies.values()),
    )


def _policy(text: str, given: Namespace, *, is_allowed: bool) -> UserPolicy:
    resource, _, actions = text.rpartition("=")
    if not resource or not actions:
        raise Failed(f"{text!r} is not of the form RESOURCE=ACTIONS", MISUSED)
    names = tuple(each.strip() for each in actions.split(",") if each.strip())
    sources = tuple(each.strip() for text in given.source for each in text.split(","))
    return UserPolicy(resource.strip(), names, is_allowed=is_allowed, source_ips=sources)
