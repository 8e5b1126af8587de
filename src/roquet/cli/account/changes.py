"""What is given about an account on the command line, in place of what was. Pure."""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from roquet.cli.operating.failures import MISUSED, NOT_FOUND, Failed
from roquet.client.admin.cluster import AccountSettings
from roquet.protocol.acl import read_right
from roquet.protocol.errors import BadRight


def changed_settings(settings: AccountSettings, given: Namespace) -> AccountSettings:
    """What is not given stays. Raises Failed."""
    said = {
        "is_admin": given.admin,
        "topic_right": given.all_topics and _right(given.all_topics),
        "group_right": given.all_groups and _right(given.all_groups),
        "topic_rights": _rights(settings.topic_rights, given, "topic"),
        "group_rights": _rights(settings.group_rights, given, "group"),
        "trusted_addresses": given.addresses,
    }
    return replace(settings, **{name: value for name, value in said.items() if value is not None})


def _rights(before: Mapping[str, str], given: Namespace, what: str) -> dict[str, str]:
    rights = dict(before)
    for name in getattr(given, f"forget_{what}", ()):
        if rights.pop(name, None) is None:
            raise Failed(f"it has no right of its own for {what} {name!r}", NOT_FOUND)
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
