"""Accounts as operators see and change them (50-54). Secrets come in, and never go out."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict, replace

from roquet.access.errors import BadRules, RulesNotSaved, UnknownAccount
from roquet.broker.broker import Access, Broker
from roquet.broker.handlers.answers import defer
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.brokers import AccountConfig, AccountConfigs
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.brokers import (
    AccountsVersionReplyHeader,
    DeleteAccountHeader,
    GlobalWhiteAddressesHeader,
    PutAccountHeader,
)
from roquet.protocol.host import unpack_host
from roquet.settings.changes import change_text

if TYPE_CHECKING:
    from roquet.access.account_store import AccountStore

log = logging.getLogger(__name__)


def put(broker: Broker, request: Request[PutAccountHeader]) -> Deferred:
    header = request.header
    account = AccountConfig(
        access_key=header.access_key,
        admin=header.admin,
        default_group_perm=header.default_group_perm,
        default_topic_perm=header.default_topic_perm,
        group_perms=_words(header.group_perms),
        secret_key=header.secret_key,
        topic_perms=_words(header.topic_perms),
        white_remote_address=header.white_remote_address,
    )
    failure = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    what = f"changed account {account.access_key} ({_change_of(account)})"
    return _change(broker, request, lambda accounts: accounts.put(account), failure, what)


def delete(broker: Broker, request: Request[DeleteAccountHeader]) -> Deferred:
    access_key = request.header.access_key
    failure = ResponseCode.DELETE_ACL_CONFIG_FAILED
    what = f"deleted account {access_key}"
    return _change(broker, request, lambda accounts: accounts.delete(access_key), failure, what)


def trust(broker: Broker, request: Request[GlobalWhiteAddressesHeader]) -> Deferred:
    header = request.header
    failure = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
    addresses = _words(header.global_white_addrs) or []
    path = Path(header.acl_file_full_path) if header.acl_file_full_path else None
    what = f"changed the addresses that need no account to {header.global_white_addrs!r}"
    return _change(broker, request, lambda accounts: accounts.trust(addresses, path), failure, what)


def get_versions(broker: Broker, _request: Request[NoFields]) -> Reply:
    accounts = _accounts(broker.access)
    versions = {str(path): each for path, each in accounts.versions().items()}
    first = next(iter(versions.values()))
    header = AccountsVersionReplyHeader(
        version=write_body(first).decode(),
        broker_name=broker.config.broker_name,
        broker_addr=str(unpack_host(broker.messages.store_host)),
        cluster_name=broker.config.cluster_name,
        all_acl_file_version=msgspec.json.encode(versions).decode(),
    )
    return Reply(header=header)


def get_all(broker: Broker, _request: Request[NoFields]) -> Reply:
    """Without secrets, which Apache includes: what is never sent cannot end up in a log."""
    documents = _accounts(broker.access).documents.values()
    body = AccountConfigs(
        global_white_addrs=[
            each for document in documents for each in document.global_white_remote_addresses or ()
        ],
        plain_access_configs=[
            replace(each, secret_key=None)
            for document in documents
            for each in document.accounts or ()
        ],
    )
    return Reply(body=write_body(body))


def _accounts(access: Access, failure: ResponseCode = ResponseCode.SYSTEM_ERROR) -> "AccountStore":
    if access.accounts is None:
        raise Refused(failure, "there is no access control here: see aclEnable")
    return access.accounts


def _change(
    broker: Broker,
    request: Request[Any],
    change: "Callable[[AccountStore], Awaitable[None]]",
    failure: ResponseCode,
    what: str,
) -> Deferred:
    """`what` is done, for the log."""
    accounts = _accounts(broker.access, failure)

    async def changed() -> Reply:
        try:
            await change(accounts)
        except (BadRules, RulesNotSaved, UnknownAccount) as error:
            return Reply(failure, remark=str(error))
        log.info("%s, as %s asked", what, request.sender)
        return Reply()

    return defer(broker.background, request, changed)


def _change_of(account: AccountConfig) -> str:
    """Without the secret."""
    given = {
        key: value
        for key, value in asdict(replace(account, secret_key=None)).items()
        if value is not None and key != "access_key"
    }
    text = change_text(None, given)
    return text if account.secret_key is None else f"{text}, a secret".removeprefix(", ")


def _words(text: str | None) -> list[str] | None:
    """A list joined by commas; None if it is not given, a blank if it is empty."""
    if text is None:
        return None
    return [word.strip() for word in text.split(",") if word.strip()]


ROUTES = (
    on(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, PutAccountHeader, put),
    on(RequestCode.DELETE_ACL_CONFIG, DeleteAccountHeader, delete),
    on(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, GlobalWhiteAddressesHeader, trust),
    on(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, NoFields, get_versions),
    on(RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, NoFields, get_all),
)
