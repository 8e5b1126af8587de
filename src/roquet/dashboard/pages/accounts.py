"""Accounts of access control: each broker keeps its own, and a change is made at all of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aiohttp import web

from roquet.client.admin.cluster import AccountSettings, BrokerAccounts, BrokerInfo
from roquet.client.errors import ClientError, RequestRefused
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.changes import change, field, flag
from roquet.dashboard.pages.rendering import DASHBOARD, link, page
from roquet.protocol.acl import read_right
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import ProtocolError

RIGHTS: Final = ("DENY", "PUB", "SUB", "PUB|SUB")


async def first_accounts(
    request: web.Request, brokers: Iterable[BrokerInfo]
) -> BrokerAccounts | None:
    """Of the first master; None where there is no access control, or none that can be asked."""
    master = next((each for each in brokers if each.is_master), None)
    if master is None:
        return None
    try:
        return await request.app[DASHBOARD].admin.broker_accounts(master.address)
    except ClientError:
        return None


def rights_in(text: str) -> dict[str, str]:
    """Of lines or words such as "orders=PUB|SUB". Raises BadInput."""
    rights = {}
    for word in text.split():
        name, _, right = word.partition("=")
        try:
            read_right(right)
        except ProtocolError:
            wanted = ", ".join(RIGHTS)
            raise BadInput(f"{word!r} is not NAME=RIGHT; rights are {wanted}") from None
        if not name:
            raise BadInput(f"{word!r} has no name before its right")
        rights[name] = right
    return rights


def rights_text(rights: Mapping[str, str]) -> str:
    """As a field of a form has it."""
    return "\n".join(f"{name}={right}" for name, right in rights.items())


async def account(request: web.Request) -> web.Response:
    key = request.match_info["key"]
    found = await _by_broker(request, key)
    if not found:
        raise BadInput(f"no broker has an account {key!r}")
    settings = next(iter(found.values()))
    return page(
        request,
        "account.html",
        key=key,
        settings=settings,
        topics=rights_text(settings.topic_rights),
        groups=rights_text(settings.group_rights),
        # Those where it is another one, or missing.
        different=[each for each in _addresses(request) if found.get(each) != settings],
        rights=RIGHTS,
    )


async def _by_broker(request: web.Request, key: str) -> dict[str, AccountSettings]:
    """The account at each broker that has it. Raises ClientError."""
    admin = request.app[DASHBOARD].admin
    found = {}
    for address in _addresses(request):
        accounts = (await admin.broker_accounts(address)).accounts
        if key in accounts:
            found[address] = accounts[key]
    return found


def _addresses(request: web.Request) -> Sequence[str]:
    snapshot = request.app[DASHBOARD].poller.snapshot
    return [] if snapshot is None else [each.address for each in snapshot.brokers]


async def put(request: web.Request) -> web.Response:
    """Creates it, or changes it; a blank secret leaves the one that it has."""
    key = await field(request, "key")
    secret = await field(request, "secret", is_needed=False)
    is_new = await flag(request, "new")
    settings = AccountSettings(
        is_admin=await flag(request, "admin"),
        topic_right=await _right(request, "topic_right"),
        group_right=await _right(request, "group_right"),
        topic_rights=rights_in(await field(request, "topics", is_needed=False)),
        group_rights=rights_in(await field(request, "groups", is_needed=False)),
        trusted_addresses=await field(request, "trusted", is_needed=False),
    )

    async def act() -> str:
        if is_new and await _by_broker(request, key):
            raise BadInput(f"account {key!r} exists already")
        if is_new and not secret:
            raise BadInput("a new account needs a secret")
        for address in _addresses(request):
            await request.app[DASHBOARD].admin.put_account(
                address, key, settings, secret_key=secret or None
            )
        return f"Account {key} is {'created' if is_new else 'changed'}."

    what = f"{'create' if is_new else 'change'} account {key}"
    back = link("brokers") if is_new else link("accounts", key)
    return await change(request, what, act, back, link("accounts", key))


async def _right(request: web.Request, name: str) -> str:
    right = await field(request, name)
    if right not in RIGHTS:
        raise BadInput(f"{name} must be one of {', '.join(RIGHTS)}, not {right!r}")
    return right


async def delete(request: web.Request) -> web.Response:
    key = request.match_info["key"]

    async def act() -> str:
        if await field(request, "confirm") != key:
            raise BadInput(f"type {key} to confirm that the account is deleted")
        for address in _addresses(request):
            await _delete_at(request, address, key)
        return f"Account {key} is deleted."

    what = f"delete account {key}"
    return await change(request, what, act, link("accounts", key), link("brokers"))


async def _delete_at(request: web.Request, address: str, key: str) -> None:
    """Where brokers share a file, the first of them has deleted it for all."""
    try:
        await request.app[DASHBOARD].admin.delete_account(address, key)
    except RequestRefused as refused:
        if refused.code != ResponseCode.DELETE_ACL_CONFIG_FAILED:
            raise


ROUTES: Final = (
    web.post("/accounts", put),
    web.get("/accounts/{key}", account),
    web.post("/accounts/{key}/delete", delete),
)
