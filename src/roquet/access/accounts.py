"""Accounts and their rights, and the account that a server signs its own requests with.

Pure: the files of accounts are read in `account_store`.
"""

import os
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Final, final

import msgspec

from roquet.access.addresses import NO_ADDRESSES, Addresses
from roquet.net.router import Need
from roquet.protocol.acl import Right, signed_fields
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.names import RETRY_PREFIX, TRACE_TOPIC, is_closed_topic

# In a need: all topics and groups. No topic can have this name.
ALL_TOPICS: Final = "*"
# What a replica needs.
_REPLICATION: Final = Need(ALL_TOPICS, Right.SUB)
# Every account may send traces, as in Apache.
_TRACES: Final = Need(TRACE_TOPIC, Right.PUB)


@final
class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Groups are named by their retry topics, as in needs."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    # Requests from there need no signature and no right.
    trusted_addresses: Addresses = NO_ADDRESSES
    topic_right: Right = Right.DENY  # unless `rights` has another
    group_right: Right = Right.DENY
    rights: Mapping[str, Right] = {}

    def __repr__(self) -> str:
        return f"Account({self.access_key!r})"

    def right_on(self, topic: str) -> Right:
        if topic == ALL_TOPICS:
            return self.right_on_everything
        right = self.rights.get(topic)
        if right is not None:
            return right
        if is_closed_topic(topic):
            # Messages of all topics wait there; a default right is not enough.
            return Right.DENY
        return self.group_right if topic.startswith(RETRY_PREFIX) else self.topic_right

    @property
    def right_on_everything(self) -> Right:
        """The right on all topics and groups, future ones included."""
        return reduce(and_, self.rights.values(), self.topic_right & self.group_right)


def lacking(account: Account, needs: Iterable[Need]) -> Need | None:
    """The first need that the account has no right to."""
    # Apache's rule: an administrator with rights of its own has those and no others.
    if account.is_admin and not account.rights:
        return None
    for need in needs:
        if need != _TRACES and not account.right_on(need.topic).suffices_for(need.right):
            return need
    return None


@final
class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """All that a guard checks; replaced as a whole when a file has changed."""

    accounts: Mapping[str, Account] = {}
    trusted_addresses: tuple[Addresses, ...] = ()
    # Requests of unknown accounts are checked with it, so that they take as long as others.
    decoy_secret: str = msgspec.field(default_factory=lambda: os.urandom(24).hex())

    def __repr__(self) -> str:
        return f"Rules of {len(self.accounts)} accounts"

    def trusts(self, ip: str) -> bool:
        """Whether requests from there may do everything."""
        return any(each.include(ip) for each in self.trusted_addresses)

    def may_replicate(self, ip: str) -> bool:
        """Whether a replica may connect from there: a replication link has no signatures.

        The trusted addresses are the global ones and those of accounts that may read everything.
        """
        return self.trusts(ip) or any(
            account.trusted_addresses.include(ip) and lacking(account, (_REPLICATION,)) is None
            for account in self.accounts.values()
        )


@final
class OwnAccount(msgspec.Struct, frozen=True, rename="camel"):
    """As Apache 5.x writes it: {"accessKey":"broker-a","secretKey":"..."}."""

    access_key: str
    secret_key: str
    security_token: str | None = None

    def __repr__(self) -> str:
        return f"OwnAccount({self.access_key!r})"


def read_own_account(text: str) -> OwnAccount:
    """Raises ValueError, which does not show the text."""
    try:
        return msgspec.json.decode(text.encode(), type=OwnAccount)
    except msgspec.DecodeError:
        raise ValueError("no credentials") from None


def request_of(
    account: OwnAccount | None, code: RequestCode, header: Header, body: bytes = b""
) -> Command:
    """A request to another server; signed, if we have an account."""
    if account is None:
        return Command(code, fields=fields_of(header), body=body)
    fields = signed_fields(
        header, body, account.access_key, account.secret_key, account.security_token
    )
    return Command(code, fields=fields, body=body)
