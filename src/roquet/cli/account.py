"""`roquet account`: accounts for servers with access control."""

import secrets
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Final

from roquet.access.changes import add_account
from roquet.access.keeping import Places, write_change
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.protocol.bodies.accounts import PlainAccount

_SECRET_SIZE: Final = 24  # random bytes: nobody guesses that many


def define(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    summary = "Make an account with a secret that nobody can guess, and print both."
    add = commands.add_parser("add", help=summary, description=summary, allow_abbrev=False)
    add.add_argument("access_key", metavar="ACCESS_KEY", help="Its name: 7 characters or more.")
    add.add_argument(
        "--acl-file",
        type=Path,
        required=True,
        metavar="FILE",
        help="The file of accounts, an Apache plain_acl.yml; it is made if it is not there. Servers"
        " that use it see the account within a second.",
    )
    add.add_argument("--admin", action="store_true", help="It may do everything.")
    add.add_argument(
        "--topic",
        action="append",
        metavar="NAME=RIGHT",
        help="What it may do with a topic: PUB, SUB, PUB|SUB or DENY. May be repeated.",
    )
    add.add_argument(
        "--group",
        action="append",
        metavar="NAME=RIGHT",
        help="What it may do with a consumer group: SUB or DENY. May be repeated.",
    )
    add.add_argument("--all-topics", metavar="RIGHT", help="The same, for all other topics.")
    add.add_argument("--all-groups", metavar="RIGHT", help="The same, for all other groups.")
    add.set_defaults(run=_add)


def _add(given: Namespace) -> int:
    account = PlainAccount(
        access_key=given.access_key,
        admin=given.admin,
        default_group_perm=given.all_groups,
        default_topic_perm=given.all_topics,
        group_perms=given.group,
        secret_key=secrets.token_urlsafe(_SECRET_SIZE),
        topic_perms=given.topic,
    )
    places = Places(given.acl_file)
    edit = partial(add_account, default=places.file, account=account)
    try:
        write_change(places, SystemDisk(), edit, SystemClock().now_ms())
    except (RoquetError, OSError) as error:
        print(f"roquet account: {error}", file=sys.stderr)
        return 1
    print(f"access key: {account.access_key}")
    print(f"secret key: {account.secret_key}")
    return 0
