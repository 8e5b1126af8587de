"""Commands of mqadmin about users and policies of 5.x."""

from argparse import Namespace
from typing import Final

from roquet.cli.mqadmin.declaring import BROKER, CLUSTER, Command, Flag, Words, option, where

_USER: Final = Flag("u", "username", is_required=True)
_SUBJECT: Final = Flag("s", "subject", is_required=True)
_POLICY: Final = (
    *(BROKER, CLUSTER, _SUBJECT),
    Flag("r", "resources", is_required=True),
    Flag("a", "actions", is_required=True),
    Flag("d", "decision", is_required=True),
    Flag("i", "sourceIp"),
)


def _name(subject: str) -> str:
    return subject.removeprefix("User:")


def _create(it: Namespace) -> Words:
    words = ["account", "user", "add", it.username, "--password", it.password]
    return [*words, *_kind(it.userType), *where(it)]


def _update(it: Namespace) -> Words:
    words = ["account", "user", "change", it.username, *option("--password", it.password)]
    return [*words, *_kind(it.userType), *_status(it.userStatus), *where(it)]


def _kind(text: str | None) -> Words:
    return [] if text is None else ["--super" if text.lower() == "super" else "--no-super"]


def _status(text: str | None) -> Words:
    return [] if text is None else ["--disable" if text.lower() == "disable" else "--enable"]


def _put_policies(it: Namespace) -> Words:
    word = "--deny" if it.decision.lower() == "deny" else "--allow"
    policies = [
        each
        for resource in it.resources.split(",")
        for each in (word, f"{resource.strip()}={it.actions}")
    ]
    words = ["account", "user", "change", _name(it.subject), *policies]
    return [*words, *option("--source", it.sourceIp), *where(it)]


def _delete_policies(it: Namespace) -> Words:
    words = ["account", "user", "change", _name(it.subject), "--forget", it.resources or ""]
    return [*words, *where(it)]


COMMANDS: Final = {
    "createUser": Command(
        "Add a user.",
        [
            *(BROKER, CLUSTER, _USER, Flag("p", "password", is_required=True)),
            Flag("t", "userType"),
        ],
        _create,
    ),
    "updateUser": Command(
        "Change the password, the type or the status of a user.",
        [
            *(BROKER, CLUSTER, _USER, Flag("p", "password"), Flag("t", "userType")),
            Flag("s", "userStatus"),
        ],
        _update,
    ),
    "deleteUser": Command(
        "Remove a user and its policies.",
        [BROKER, CLUSTER, _USER],
        lambda it: ["account", "user", "remove", it.username, "--yes", *where(it)],
    ),
    "getUser": Command(
        "A user, without its password.",
        [BROKER, CLUSTER, _USER],
        lambda it: ["account", "user", "show", it.username, *where(it)],
    ),
    "listUser": Command(
        "Users, without their passwords.",
        [BROKER, CLUSTER, Flag("f", "filter")],
        lambda it: ["account", "user", "list", *option("--filter", it.filter), *where(it)],
    ),
    "createAcl": Command("Add policies to a user.", _POLICY, _put_policies),
    "updateAcl": Command("Replace policies of a user.", _POLICY, _put_policies),
    "deleteAcl": Command(
        "Remove the policy of a user on a resource, or all of them.",
        [BROKER, CLUSTER, _SUBJECT, Flag("r", "resources")],
        _delete_policies,
    ),
    "getAcl": Command(
        "The policies of a user.",
        [BROKER, CLUSTER, _SUBJECT],
        lambda it: ["account", "user", "show", _name(it.subject), *where(it)],
    ),
    "listAcl": Command(
        "The policies of all users.",
        [BROKER, CLUSTER, Flag("s", "subject")],
        lambda it: [
            *("account", "user", "list"),
            *option("--filter", it.subject and _name(it.subject)),
            *where(it),
        ],
    ),
}
