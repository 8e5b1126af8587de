"""Accounts, and what they may do. Pure: where they come from is said in `keeping`."""

import os
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Final, final

import msgspec

from roquet.access.addresses import NOBODY, Addresses
from roquet.net.router import Need
from roquet.protocol.acl_rights import Right
from roquet.protocol.names import CLOSED_TOPICS, RETRY_PREFIX, TRACE_TOPIC

# In a need: whatever topics and groups there are. Nothing can be called that.
ALL_TOPICS: Final = "*"
# What a replica does.
_COPIES: Final = Need(ALL_TOPICS, Right.SUB)
# Everybody who is known may write down what became of messages, as in Apache.
_TRACES: Final = Need(TRACE_TOPIC, Right.PUB)


@final
class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Groups are called by the topics of their retries, as in needs."""

    access_key: str
    secret_key: str
    is_admin: bool = False
    # From there no signature is asked for, and no right.
    trusted_addresses: Addresses = NOBODY
    topic_right: Right = Right.DENY  # where nothing else is said
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
        if topic in CLOSED_TOPICS:
            # Messages of all topics wait there; that one may be read by default is not enough.
            return Right.DENY
        return self.group_right if topic.startswith(RETRY_PREFIX) else self.topic_right

    @property
    def right_on_everything(self) -> Right:
        """What it may do with all topics and groups, those that are not there yet among them."""
        return reduce(and_, self.rights.values(), self.topic_right & self.group_right)


def lacking(account: Account, needs: Iterable[Need]) -> Need | None:
    """The first of the needs that the account has no right to."""
    # Apache's rule: an administrator with rights of its own has those and no others.
    if account.is_admin and not account.rights:
        return None
    for need in needs:
        if need != _TRACES and not account.right_on(need.topic).suffices_for(need.right):
            return need
    return None


@final
class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """All that a guard goes by; replaced as a whole when a file has changed."""

    accounts: Mapping[str, Account] = {}
    trusted_addresses: tuple[Addresses, ...] = ()
    # What requests of unknown accounts are checked with, so that they take as long as others.
    decoy_secret: str = msgspec.field(default_factory=lambda: os.urandom(24).hex())

    def __repr__(self) -> str:
        return f"Rules of {len(self.accounts)} accounts"

    def trusts(self, ip: str) -> bool:
        """Whether whoever comes from there may do everything."""
        return any(each.include(ip) for each in self.trusted_addresses)

    def may_copy(self, ip: str) -> bool:
        """Whether a replica may come from there: where nothing can be signed, addresses decide.

        They are those that everybody trusts, and those of accounts that may read everything.
        """
        return self.trusts(ip) or any(
            account.trusted_addresses.include(ip) and lacking(account, (_COPIES,)) is None
            for account in self.accounts.values()
        )
