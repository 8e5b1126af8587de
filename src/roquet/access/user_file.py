"""The file of users and their policies, read and written, and the changes that operators make.

    users:
    - username: shop-front
      password: 12345678
      userType: Normal        # Super may do everything
      userStatus: enable
    acls:
    - subject: User:shop-front
      policies:
      - policyType: Custom
        entries:
        - resource: Topic:orders
          actions: [Pub, Sub]
          sourceIps: [10.0.0.0/8]
          decision: Allow

Apache 5.x has the same in a RocksDB database. A change is a pure function from the document before
to the one after.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, final

import msgspec
from msgspec.structs import replace

from roquet.access.acl_file import read_yaml, write_yaml
from roquet.access.errors import BadRules, UnknownPolicy, UnknownUser
from roquet.access.policies import (
    Action,
    Decision,
    PolicyRule,
    PolicyType,
    choice,
    read_actions,
    read_networks,
    read_resource,
)
from roquet.access.users import User, UserRules
from roquet.protocol.bodies import brokers as bodies

_SUBJECT_PREFIX: Final = "User:"
_SHOWN_SIZE_MAX: Final = 100


class UserType(StrEnum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    ENABLE = "enable"
    DISABLE = "disable"


# A misspelled name would be a missing limit, so unknown ones are refused.


class _User(bodies.User, kw_only=True, forbid_unknown_fields=True):
    pass


class _Entry(bodies.PolicyEntry, kw_only=True, forbid_unknown_fields=True):
    pass


class _Policy(bodies.Policy, kw_only=True, forbid_unknown_fields=True):
    entries: list[_Entry] | None = None  # type: ignore[assignment]


class _Acl(bodies.Acl, kw_only=True, forbid_unknown_fields=True):
    policies: list[_Policy] | None = None  # type: ignore[assignment]


@final
class UsersDocument(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The content of the file, unchanged."""

    users: list[_User] = []
    acls: list[_Acl] = []


Edit = Callable[[UsersDocument], UsersDocument]


def read_users(content: bytes) -> UsersDocument:
    """Raises BadRules."""
    return read_yaml(content, UsersDocument)


def write_users(document: UsersDocument) -> bytes:
    return write_yaml(document)


def user_rules(document: UsersDocument) -> UserRules:
    """Raises BadRules."""
    policies = {_name_of(acl.subject): acl for acl in document.acls}
    users = [_user(each, policies.get(each.username or "")) for each in document.users]
    rules = UserRules(users={user.name: user for user in users})
    if len(rules.users) < len(users) or len(policies) < len(document.acls):
        raise BadRules(None, "a user, or the policies of a user, are there twice")
    return rules


def _user(body: bodies.User, acl: bodies.Acl | None) -> User:
    if not body.username or not body.password:
        raise BadRules(None, "a user needs a name and a password")
    try:
        return User(
            name=body.username,
            password=body.password,
            is_super=choice(UserType, body.user_type or UserType.NORMAL) is UserType.SUPER,
            is_enabled=choice(UserStatus, body.user_status or UserStatus.ENABLE)
            is UserStatus.ENABLE,
            custom=_rules(acl, PolicyType.CUSTOM),
            default=_rules(acl, PolicyType.DEFAULT),
        )
    except BadRules as error:
        raise BadRules(None, f"user {body.username[:_SHOWN_SIZE_MAX]!r}: {error.reason}") from None


def _rules(acl: bodies.Acl | None, policy_type: PolicyType) -> tuple[PolicyRule, ...]:
    policies = [] if acl is None else acl.policies or []
    return tuple(
        _rule(entry)
        for policy in policies
        if _type_of(policy) is policy_type
        for entry in policy.entries or ()
    )


def _rule(entry: bodies.PolicyEntry) -> PolicyRule:
    return PolicyRule(
        read_resource(entry.resource or ""),
        read_actions(entry.actions),
        choice(Decision, entry.decision or ""),
        read_networks(entry.source_ips),
    )


# What operators change.


def create_user(document: UsersDocument, user: bodies.User) -> UsersDocument:
    """Raises BadRules, also if the user exists."""
    if find_user(document, user.username) is not None:
        raise BadRules(None, f"user {(user.username or '')[:_SHOWN_SIZE_MAX]!r} exists already")
    if not user.username or not user.password:
        raise BadRules(None, "a user needs a name and a password")
    return replace(document, users=[*document.users, _stored_user(user)])


def update_user(document: UsersDocument, user: bodies.User) -> UsersDocument:
    """What is not given stays unchanged. Raises UnknownUser and BadRules."""
    before = known_user(document, user.username)
    after = _stored_user(
        bodies.User(
            username=before.username,
            password=user.password or before.password,
            user_type=user.user_type or before.user_type,
            user_status=user.user_status or before.user_status,
        )
    )
    users = [after if each is before else each for each in document.users]
    return replace(document, users=users)


def delete_user(document: UsersDocument, name: str) -> UsersDocument:
    """With the policies; no error if there is no such user, as in Apache."""
    return UsersDocument(
        users=[each for each in document.users if each.username != name],
        acls=[each for each in document.acls if _name_of(each.subject) != name],
    )


def put_acl(document: UsersDocument, acl: bodies.Acl) -> UsersDocument:
    """Adds entries, or replaces those of the same resources. Raises UnknownUser and BadRules."""
    name = _name_of(acl.subject)
    known_user(document, name)
    if not acl.policies or not all(policy.entries for policy in acl.policies):
        raise BadRules(None, "an ACL needs policies with entries")
    before = find_acl(document, name) or _Acl(subject=_SUBJECT_PREFIX + name)
    after = before
    for policy in acl.policies:
        after = _with_entries(after, _type_of(policy), policy.entries or [])
    return _with_acl(document, before, after)


def delete_acl(
    document: UsersDocument, subject: str, resource: str | None, policy_type: str | None
) -> UsersDocument:
    """All policies, or the entry of a resource. Raises UnknownUser, UnknownPolicy and BadRules."""
    before = known_acl(document, subject)
    if not resource:
        return _with_acl(document, before, None)
    found, kind = read_resource(resource), choice(PolicyType, policy_type or PolicyType.CUSTOM)
    policies = [
        replace(policy, entries=_without(policy.entries or (), str(found)))
        if _type_of(policy) is kind
        else policy
        for policy in before.policies or ()
    ]
    rest = [policy for policy in policies if policy.entries]
    return _with_acl(document, before, replace(before, policies=rest) if rest else None)


def find_user(document: UsersDocument, name: str | None) -> _User | None:
    return next((each for each in document.users if each.username == name), None)


def known_user(document: UsersDocument, name: str | None) -> _User:
    """Raises UnknownUser."""
    found = find_user(document, name)
    if found is None:
        raise UnknownUser(name or "")
    return found


def find_acl(document: UsersDocument, name: str) -> _Acl | None:
    return next((each for each in document.acls if _name_of(each.subject) == name), None)


def known_acl(document: UsersDocument, subject: str) -> _Acl:
    """Raises UnknownUser, UnknownPolicy and BadRules."""
    name = _name_of(subject)
    known_user(document, name)
    found = find_acl(document, name)
    if found is None:
        raise UnknownPolicy(name)
    return found


def listed_users(document: UsersDocument, part: str | None) -> list[bodies.User]:
    """All, or those whose names contain a text."""
    return [each for each in document.users if (part or "") in (each.username or "")]


def listed_acls(
    document: UsersDocument, subject_part: str | None, resource_part: str | None
) -> list[bodies.Acl]:
    """All, or those whose subjects and resources contain these texts."""
    found: list[bodies.Acl] = []
    for acl in document.acls:
        policies = [
            replace(policy, entries=_with_text(policy.entries or (), resource_part or ""))
            for policy in acl.policies or ()
        ]
        policies = [policy for policy in policies if policy.entries]
        if (subject_part or "") in (acl.subject or "") and policies:
            found.append(replace(acl, policies=policies))
    return found


def _with_text(entries: Iterable[_Entry], part: str) -> list[_Entry]:
    return [each for each in entries if part in (each.resource or "")]


def _without(entries: Iterable[_Entry], resource: str) -> list[_Entry]:
    return [each for each in entries if str(read_resource(each.resource or "")) != resource]


def _name_of(subject: str | None) -> str:
    """Raises BadRules."""
    name = (subject or "").removeprefix(_SUBJECT_PREFIX)
    if not name or name == subject:
        raise BadRules(None, f"{(subject or '')[:_SHOWN_SIZE_MAX]!r} is not of the form User:NAME")
    return name


def _type_of(policy: bodies.Policy) -> PolicyType:
    return choice(PolicyType, policy.policy_type or PolicyType.CUSTOM)


def _stored_user(user: bodies.User) -> _User:
    return _User(
        username=user.username,
        password=user.password,
        user_type=str(choice(UserType, user.user_type or UserType.NORMAL)),
        user_status=str(choice(UserStatus, user.user_status or UserStatus.ENABLE)),
    )


def _stored_entry(entry: bodies.PolicyEntry) -> _Entry:
    """In the usual spelling. Raises BadRules."""
    rule = _rule(entry)
    return _Entry(
        resource=str(rule.resource),
        actions=[str(choice(Action, text)) for text in entry.actions or ()],
        source_ips=entry.source_ips or None,
        decision=str(rule.decision),
    )


def _with_entries(acl: _Acl, kind: PolicyType, entries: Iterable[bodies.PolicyEntry]) -> _Acl:
    """An entry of a known resource stays in its place."""
    policies = list(acl.policies or ())
    at = next((at for at, each in enumerate(policies) if _type_of(each) is kind), len(policies))
    before = policies[at].entries or [] if at < len(policies) else []
    by_resource = {each.resource: each for each in before}
    by_resource |= {each.resource: each for each in map(_stored_entry, entries)}
    policies[at : at + 1] = [_Policy(policy_type=str(kind), entries=list(by_resource.values()))]
    return replace(acl, policies=policies)


def _with_acl(document: UsersDocument, before: _Acl, after: _Acl | None) -> UsersDocument:
    acls = [after if each is before else each for each in document.acls]
    if after is not None and before not in document.acls:
        acls.append(after)
    return replace(document, acls=[each for each in acls if each is not None])
