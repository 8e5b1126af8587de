"""`roquet account`: accounts for servers with access control, in a file or at running brokers.

A secret is generated here and printed once, when it is new. No other command shows one.
"""

import secrets
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from roquet.cli.account import users
from roquet.cli.account.places import AccountPlace, SettingsByPlaces, account_places, alike
from roquet.cli.admin_commands.commands import Commands, Session, define_confirmation, is_confirmed
from roquet.cli.admin_commands.failures import DONE, MISUSED, NOT_FOUND, Failed
from roquet.client.admin.cluster import AccountSettings
from roquet.protocol.acl import read_right
from roquet.protocol.errors import BadRight
from roquet.reporting import Fact, Report, ReportTable

_SECRET_SIZE: Final = 24  # random bytes: too many to guess

# Column names of the members of AccountSettings.
_COLUMNS: Final = {
    "is_admin": "admin",
    "topic_right": "all_topics",
    "group_right": "all_groups",
    "topic_rights": "topics",
    "group_rights": "groups",
    "trusted_addresses": "addresses",
}
assert list(_COLUMNS) == [each.name for each in fields(AccountSettings)]

_WHERE: Final = """\
With --acl-file, accounts of a file, an Apache plain_acl.yml; servers that use it reload a change
within a second. Without it, accounts of all registered brokers, which require the credentials of an
administrator.
"""


def define(parser: ArgumentParser) -> None:
    commands = Commands(parser)
    listing = commands.add("list", "List accounts and their permissions.", _list, _WHERE)
    _define_places(listing)
    show = commands.add("show", "Show the permissions of an account.", _show, _WHERE)
    show.add_argument("access_key", metavar="ACCESS_KEY")
    _define_places(show)
    add = commands.add(
        "add",
        "Add an account with a generated secret, and print both.",
        _add,
        _WHERE,
    )
    add.add_argument("access_key", metavar="ACCESS_KEY", help="Its name: 7 characters or more.")
    _define_settings(add)
    _define_places(add)
    change = commands.add(
        "change", "Change an account; omitted settings stay unchanged.", _change, _WHERE
    )
    change.add_argument("access_key", metavar="ACCESS_KEY")
    _define_settings(change)
    for what in ("topic", "group"):
        change.add_argument(
            f"--forget-{what}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"Remove the permission for this {what}; the default applies. Can be repeated.",
        )
    change.add_argument(
        "--new-secret",
        action="store_true",
        help="Generate a new secret and print it; the old one is rejected from then on.",
    )
    define_confirmation(change)
    _define_places(change)
    remove = commands.add(
        "remove", "Remove an account: its requests are rejected.", _remove, _WHERE
    )
    remove.add_argument("access_key", metavar="ACCESS_KEY")
    define_confirmation(remove)
    _define_places(remove)
    users.define(commands.parser("user", "Users of 5.x and their policies (ACL 2.0)."))


def _define_places(parser: ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--acl-file", type=Path, metavar="FILE", help="In this file, without a server."
    )
    where.add_argument("--cluster", help="At the brokers of this cluster only.")
    where.add_argument(
        "--broker", metavar="NAME", help="At this broker only: its name, or host:port."
    )


def _define_settings(parser: ArgumentParser) -> None:
    admin = parser.add_mutually_exclusive_group()
    admin.add_argument(
        "--admin", action="store_true", default=None, help="Administrator: all permissions."
    )
    admin.add_argument(
        "--no-admin", action="store_false", dest="admin", default=None, help="Not an administrator."
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME=RIGHT",
        help="Permission for a topic: PUB, SUB, PUB|SUB or DENY. Can be repeated.",
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=RIGHT",
        help="Permission for a consumer group: SUB or DENY. Can be repeated.",
    )
    parser.add_argument(
        "--all-topics", metavar="RIGHT", help="Default permission for all other topics."
    )
    parser.add_argument(
        "--all-groups", metavar="RIGHT", help="Default permission for all other groups."
    )
    parser.add_argument(
        "--addresses",
        metavar="PATTERN",
        help="Client addresses that need no signature: 10.0.0.7, 10.0.0.*, or '' for none.",
    )


async def _list(session: Session) -> int:
    places = await account_places(session)
    found = [(place, await place.accounts()) for place in places]
    names = sorted({name for _, each in found for name in each.accounts})
    by_name = {
        name: alike((place, each.accounts[name]) for place, each in found if name in each.accounts)
        for name in names
    }
    table = ReportTable(
        "accounts",
        ("account", *_COLUMNS.values(), "at"),
        [
            (name, *_row(settings), _names(at))
            for name, variants in by_name.items()
            for at, settings in variants
        ],
    )
    trusted = {text for _, each in found for text in each.trusted_addresses}
    session.finish(Report({"trusted_addresses": ", ".join(sorted(trusted)) or None}, [table]))
    return DONE


async def _show(session: Session) -> int:
    found = await _settings(session)
    whole = [name for name in _COLUMNS if not name.endswith("_rights")]
    settings = ReportTable(
        "settings",
        ("at", *(_COLUMNS[name] for name in whole)),
        [(_names(at), *(_fact(getattr(each, name)) for name in whole)) for at, each in found],
    )
    rights = ReportTable(
        "rights",
        ("at", "of", "name", "right"),
        [
            (_names(at), what, name, right)
            for at, each in found
            for what, rights in (("topic", each.topic_rights), ("group", each.group_rights))
            for name, right in rights.items()
        ],
    )
    session.finish(Report({"account": session.given.access_key}, [settings, rights]))
    return DONE


async def _add(session: Session) -> int:
    given = session.given
    settings = changed_settings(AccountSettings(), given)
    places = await account_places(session)
    for place in places:
        if await place.has(given.access_key):
            raise Failed(
                f"account {given.access_key!r} already exists at {place.name}; change it with:"
                " roquet account change"
            )
    secret = secrets.token_urlsafe(_SECRET_SIZE)
    report = Report({"access_key": given.access_key, "secret_key": secret})
    await _put(session, [(list(places), settings)], secret, report)
    return DONE


async def _change(session: Session) -> int:
    given = session.given
    before = await _settings(session)
    after = [(at, changed_settings(settings, given)) for at, settings in before]
    secret = secrets.token_urlsafe(_SECRET_SIZE) if given.new_secret else None
    facts: dict[str, Fact] = {"account": given.access_key}
    table = _changes_table(before, after, secret)
    if not table.rows or given.dry_run or (secret is not None and not given.yes):
        session.finish(Report(facts, [table]))
        if not table.rows:
            session.reporter.say("nothing to change")
            return DONE
        question = (
            f"Replace the secret of {given.access_key}? Clients with the old one are rejected."
        )
        if not is_confirmed(session, question):
            return DONE
    if secret is not None:
        facts["secret_key"] = secret
    await _put(session, after, secret, Report(facts, [table]))
    return DONE


async def _remove(session: Session) -> int:
    given = session.given
    found = await _settings(session)
    rows = [(_names(at), *_row(each)) for at, each in found]
    table = ReportTable("accounts", ("at", *_COLUMNS.values()), rows)
    session.finish(Report({"account": given.access_key}, [table]))
    if is_confirmed(session, f"Remove account {given.access_key}?"):
        for at, _ in found:
            for place in at:
                await place.remove(given.access_key)
        session.reporter.say("removed")
    return DONE


async def _put(
    session: Session, wanted: SettingsByPlaces, secret: str | None, report: Report
) -> None:
    """Reports as soon as one place has the secret, since others may fail."""
    key = session.given.access_key
    is_reported = False
    # One by one: brokers may share a file.
    for place, settings in ((place, settings) for at, settings in wanted for place in at):
        await place.put(key, settings, secret)
        if not is_reported:
            session.finish(report)
            is_reported = True


async def _settings(session: Session) -> SettingsByPlaces:
    """Of the given account. Raises Failed if it exists nowhere."""
    key = session.given.access_key
    found = [(place, (await place.accounts()).accounts) for place in await account_places(session)]
    variants = alike((place, accounts[key]) for place, accounts in found if key in accounts)
    if not variants:
        raise Failed(f"account {key!r} does not exist; see: roquet account list", NOT_FOUND)
    return variants


def _changes_table(
    before: SettingsByPlaces, after: SettingsByPlaces, secret: str | None
) -> ReportTable:
    rows: list[tuple[Fact, ...]] = []
    for (at, old), (_, new) in zip(before, after, strict=True):
        rows += [
            (_names(at), column, _fact(getattr(old, name)), _fact(getattr(new, name)))
            for name, column in _COLUMNS.items()
            if getattr(old, name) != getattr(new, name)
        ]
        if secret is not None:
            rows.append((_names(at), "secret", None, "new"))
    return ReportTable("changes", ("at", "what", "before", "after"), rows)


def _row(settings: AccountSettings) -> list[Fact]:
    return [_fact(getattr(settings, name)) for name in _COLUMNS]


def _fact(value: Fact) -> Fact:
    return None if value in ("", {}) else value


def _names(places: Sequence[AccountPlace]) -> str:
    return ", ".join(place.name for place in places)


def changed_settings(settings: AccountSettings, given: Namespace) -> AccountSettings:
    """`settings` with the given changes. Raises Failed."""
    changes = {
        "is_admin": given.admin,
        "topic_right": given.all_topics and _right(given.all_topics),
        "group_right": given.all_groups and _right(given.all_groups),
        "topic_rights": _rights(settings.topic_rights, given, "topic"),
        "group_rights": _rights(settings.group_rights, given, "group"),
        "trusted_addresses": given.addresses,
    }
    return replace(
        settings, **{name: value for name, value in changes.items() if value is not None}
    )


def _rights(before: Mapping[str, str], given: Namespace, what: str) -> dict[str, str]:
    rights = dict(before)
    for name in getattr(given, f"forget_{what}", ()):
        if rights.pop(name, None) is None:
            raise Failed(f"the account has no permission of its own for {what} {name!r}", NOT_FOUND)
    for text in getattr(given, what):
        name, _, right = text.partition("=")
        if not name.strip() or not right:
            raise Failed(f"{text!r} is not of the form NAME=RIGHT", MISUSED)
        rights[name.strip()] = _right(right)
    return rights


def _right(text: str) -> str:
    try:
        read_right(text)
    except BadRight as error:
        raise Failed(str(error), MISUSED) from None
    return text.strip()
