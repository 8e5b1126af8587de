"""Accounts of brokers with access control, as their operator sees them (requests 50, 51 and 54).

Each broker, master or slave, keeps its own. What brokers tell of secrets goes no further.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from roquet.client.admin.servers import AdminServers
from roquet.client.cluster.brokers import reply_body
from roquet.protocol.bodies.accounts import PlainAccount, PlainAccounts
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.accounts import DeleteAccountHeader, PutAccountHeader
from roquet.protocol.headers.addressed import NoFields

_NO_RIGHT = "DENY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettings:
    """What an account may do. Rights are "DENY", "PUB", "SUB" or "PUB|SUB"."""

    is_admin: bool = False
    # For all topics and groups of which nothing else is said.
    topic_right: str = _NO_RIGHT
    group_right: str = _NO_RIGHT
    # By name.
    topic_rights: Mapping[str, str] = field(default_factory=dict)
    group_rights: Mapping[str, str] = field(default_factory=dict)
    # Who comes from there need not sign: a pattern such as "10.0.0.*"; blank is nobody.
    trusted_addresses: str = ""


@dataclass(frozen=True, slots=True)
class BrokerAccounts:
    """Of one broker, by access key."""

    accounts: Mapping[str, AccountSettings]
    # Whoever comes from there may do everything, unsigned.
    trusted_addresses: tuple[str, ...] = ()


async def accounts_at(servers: AdminServers, address: str) -> BrokerAccounts:
    body = await _told(servers, address)
    return BrokerAccounts(
        {each.access_key: settings_of(each) for each in body.plain_access_configs},
        tuple(body.global_white_addrs),
    )


async def put_account(
    servers: AdminServers,
    address: str,
    access_key: str,
    settings: AccountSettings,
    secret_key: str | None,
) -> None:
    told = (await _told(servers, address)).plain_access_configs
    before = next(
        (each for each in told if each.access_key == access_key), PlainAccount(access_key="")
    )
    was = settings_of(before)
    header = PutAccountHeader(
        access_key=access_key,
        # Brokers of Apache tell secrets, and want to hear them again with each change.
        secret_key=secret_key or before.secret_key,
        white_remote_address=settings.trusted_addresses,
        admin=settings.is_admin,
        default_topic_perm=settings.topic_right,
        default_group_perm=settings.group_right,
        topic_perms=_rights_text(settings.topic_rights, was.topic_rights),
        group_perms=_rights_text(settings.group_rights, was.group_rights),
    )
    await servers.brokers.ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)


async def delete_account(servers: AdminServers, address: str, access_key: str) -> None:
    header = DeleteAccountHeader(access_key=access_key)
    await servers.brokers.ask(address, RequestCode.DELETE_ACL_CONFIG, header)


async def _told(servers: AdminServers, address: str) -> PlainAccounts:
    code = RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG
    reply = await servers.brokers.ask(address, code, NoFields())
    return reply_body(PlainAccounts, reply, address)


def settings_of(account: PlainAccount) -> AccountSettings:
    return AccountSettings(
        is_admin=account.admin,
        topic_right=account.default_topic_perm or _NO_RIGHT,
        group_right=account.default_group_perm or _NO_RIGHT,
        topic_rights=_rights(account.topic_perms),
        group_rights=_rights(account.group_perms),
        trusted_addresses=account.white_remote_address or "",
    )


def plain_account(
    access_key: str, settings: AccountSettings, secret_key: str | None
) -> PlainAccount:
    """As files have it. Without a secret it is the one of before."""
    return PlainAccount(
        access_key=access_key,
        admin=settings.is_admin,
        default_group_perm=settings.group_right,
        default_topic_perm=settings.topic_right,
        group_perms=list(_pairs(settings.group_rights)),
        secret_key=secret_key,
        topic_perms=list(_pairs(settings.topic_rights)),
        white_remote_address=settings.trusted_addresses,
    )


def _rights(texts: Iterable[str] | None) -> dict[str, str]:
    pairs = (text.partition("=") for text in texts or ())
    return {name.strip(): right.strip() for name, _, right in pairs}


def _rights_text(rights: Mapping[str, str], before: Mapping[str, str]) -> str | None:
    """A blank takes the last right; brokers of Apache refuse it, so it is not said in vain."""
    return ",".join(_pairs(rights)) if rights or before else None


def _pairs(rights: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}={right}" for name, right in rights.items())
