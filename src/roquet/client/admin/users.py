"""Users of brokers of 5.x, and their policies (requests 3001-3010).

Each broker, master or slave, keeps its own. Passwords that brokers return go no further.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from roquet.client.admin.servers import AdminServers
from roquet.client.cluster.brokers import reply_body
from roquet.client.errors import BadArgument
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.brokers import Acl, Policy, PolicyEntry, User
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.brokers import (
    DeletePolicyHeader,
    ListPoliciesHeader,
    ListUsersHeader,
    PolicyHeader,
    UserHeader,
)

_SUPER, _NORMAL = "Super", "Normal"
_ENABLED, _DISABLED = "enable", "disable"
_CUSTOM = "Custom"
_SUBJECT_PREFIX = "User:"


@dataclass(frozen=True, slots=True)
class UserPolicy:
    """Whether actions on a resource are allowed; the most specific policy decides."""

    # "Topic:orders", "Group:bill*", "Cluster:*" or "*".
    resource: str
    # "Pub", "Sub", "Create", "Update", "Delete", "Get", "List" or "All".
    actions: tuple[str, ...]
    is_allowed: bool = True
    # Addresses and networks of clients; none are all.
    source_ips: tuple[str, ...] = ()
    # A default policy decides where no other one matches.
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class UserSettings:
    """A super user may do everything, others what their policies allow."""

    is_super: bool = False
    is_enabled: bool = True
    policies: tuple[UserPolicy, ...] = ()


async def users_at(servers: AdminServers, address: str) -> dict[str, UserSettings]:
    reply = await servers.brokers.ask(address, RequestCode.AUTH_LIST_USER, ListUsersHeader())
    users = reply_body(list[User], reply, address)
    reply = await servers.brokers.ask(address, RequestCode.AUTH_LIST_ACL, ListPoliciesHeader())
    return settings_of_users(users, reply_body(list[Acl], reply, address))


async def put_user(
    servers: AdminServers, address: str, name: str, settings: UserSettings, password: str | None
) -> None:
    before = (await users_at(servers, address)).get(name)
    code = RequestCode.AUTH_CREATE_USER if before is None else RequestCode.AUTH_UPDATE_USER
    body = user_body(name, settings, password)
    await servers.brokers.ask(address, code, UserHeader(username=name), write_body(body))
    subject = _SUBJECT_PREFIX + name
    policies = before.policies if before else ()
    for gone in removed(policies, settings.policies):
        header = DeletePolicyHeader(
            subject=subject, resource=gone.resource, policy_type=_type_of(gone)
        )
        await servers.brokers.ask(address, RequestCode.AUTH_DELETE_ACL, header)
    changed = [each for each in settings.policies if each not in policies]
    if changed:
        acl = acl_body(name, changed)
        await servers.brokers.ask(
            address, RequestCode.AUTH_UPDATE_ACL, PolicyHeader(subject=subject), write_body(acl)
        )


async def copy_user(servers: AdminServers, source: str, target: str, name: str) -> None:
    settings = (await users_at(servers, source)).get(name)
    if settings is None:
        raise BadArgument(f"there is no user {name!r} at {source}", "name")
    header = UserHeader(username=name)
    reply = await servers.brokers.ask(source, RequestCode.AUTH_GET_USER, header)
    password = reply_body(User, reply, source).password
    await put_user(servers, target, name, settings, password)


async def delete_user(servers: AdminServers, address: str, name: str) -> None:
    await servers.brokers.ask(address, RequestCode.AUTH_DELETE_USER, UserHeader(username=name))


def settings_of_users(users: Iterable[User], acls: Iterable[Acl]) -> dict[str, UserSettings]:
    """By name."""
    policies = {(acl.subject or "").removeprefix(_SUBJECT_PREFIX): _policies(acl) for acl in acls}
    return {
        user.username or "": UserSettings(
            is_super=(user.user_type or "").lower() == _SUPER.lower(),
            is_enabled=(user.user_status or "").lower() != _DISABLED,
            policies=policies.get(user.username or "", ()),
        )
        for user in users
    }


def removed(before: Iterable[UserPolicy], after: Iterable[UserPolicy]) -> list[UserPolicy]:
    """Policies on resources that have none afterwards."""
    kept = {(each.is_default, each.resource) for each in after}
    return [each for each in before if (each.is_default, each.resource) not in kept]


def user_body(name: str, settings: UserSettings, password: str | None) -> User:
    """A user as in files. Without `password` the existing one stays."""
    return User(
        username=name,
        password=password,
        user_type=_SUPER if settings.is_super else _NORMAL,
        user_status=_ENABLED if settings.is_enabled else _DISABLED,
    )


def acl_body(name: str, policies: Iterable[UserPolicy]) -> Acl:
    return Acl(
        subject=_SUBJECT_PREFIX + name,
        policies=[Policy(policy_type=_type_of(each), entries=[_entry(each)]) for each in policies],
    )


def _policies(acl: Acl) -> tuple[UserPolicy, ...]:
    return tuple(
        UserPolicy(
            entry.resource or "",
            tuple(entry.actions or ()),
            is_allowed=(entry.decision or "").lower() == "allow",
            source_ips=tuple(entry.source_ips or ()),
            is_default=(policy.policy_type or _CUSTOM) != _CUSTOM,
        )
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    )


def _entry(policy: UserPolicy) -> PolicyEntry:
    return PolicyEntry(
        resource=policy.resource,
        actions=list(policy.actions),
        source_ips=list(policy.source_ips) or None,
        decision="Allow" if policy.is_allowed else "Deny",
    )


def _type_of(policy: UserPolicy) -> str:
    return "Default" if policy.is_default else _CUSTOM
