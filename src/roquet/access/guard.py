"""The one place that decides whether a request is allowed: routers ask it before the handler.

The order is Apache's: trusted addresses, a known access key, addresses that its account trusts,
the signature, and then the rights. A refusal does not reveal whether an account exists.
"""

import logging
from typing import Any, Final, final

from roquet.access.account_store import AccountStore
from roquet.access.accounts import AccessRules, Account, lacking
from roquet.clock import Clock
from roquet.net.connection import Connection
from roquet.net.errors import Refused
from roquet.net.router import Needs, Request
from roquet.protocol.acl import ACCESS_KEY, has_valid_signature, load_signing
from roquet.protocol.codes import VERSION_5_0_0, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts
from roquet.protocol.names import RETRY_PREFIX
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# Refusals of Apache's 4.9 start with it, and tools depend on it.
_APACHE_PREFIX: Final = "org.apache.rocketmq.acl.common.AclException: "
_SHOWN_SIZE_MAX: Final = 100


class Denied(Refused):
    """A system error for 4.9; 5.x has a code of its own."""

    def __init__(self, command: Command, reason: str) -> None:
        if command.version >= VERSION_5_0_0:
            super().__init__(ResponseCode.NO_PERMISSION, reason)
        else:
            super().__init__(ResponseCode.SYSTEM_ERROR, _APACHE_PREFIX + reason)
        self.reason = reason


@final
class AccessGuard:
    """Checks each request against the accounts in force at that time.

    `denied_count` is how many requests were refused.
    """

    def __init__(self, accounts: AccountStore, clock: Clock) -> None:
        load_signing()
        self._accounts = accounts
        self._log = ThrottledLog(log, clock.monotonic_s)
        self.denied_count = 0

    def identify(self, command: Command, connection: Connection) -> Account | None:
        """The account of a request; None where a trusted address needs none. Raises Denied.

        Called before the header is read: without an account, nothing is learned from its errors.
        """
        try:
            ip = connection.peer_address.ip
            rules = self._accounts.rules
            return None if rules.trusts(ip) else authenticated(rules, command, ip)
        except Denied as denied:
            self._note(command, connection, denied)
            raise

    def account_name(self, account: Account | None) -> str | None:
        return None if account is None else account.access_key

    def check(
        self,
        account: Account | None,
        server: Any,
        request: Request[Any],
        needs: Needs[Any, Any] | None,
    ) -> None:
        """Raises Denied, and what a bad body raises when the needs are read from it."""
        try:
            _check_rights(account, server, request, needs)
        except Denied as denied:
            self._note(request.command, request.connection, denied)
            raise

    def may_replicate(self, ip: str) -> bool:
        """Whether a replica may read the log from there, over a link that has no signatures."""
        return self._accounts.rules.may_replicate(ip)

    def tick(self) -> None:
        """Called once a second: logs how many more requests were refused."""
        self._log.flush()

    def _note(self, command: Command, connection: Connection, denied: Denied) -> None:
        self.denied_count += 1
        name = RequestCode(command.code).name
        self._log.warning("refused", f"refused {name} of {connection.peer}: {denied.reason}")


def _check_rights(
    account: Account | None, server: Any, request: Request[Any], needs: Needs[Any, Any] | None
) -> None:
    """Raises Denied."""
    if account is None or (account.is_admin and needs is None):
        return
    command = request.command
    if needs is None:
        raise Denied(
            command,
            f"Need admin permission for request code={command.code}, but "
            f"accessKey={account.access_key} is not",
        )
    lack = lacking(account, needs.of(server, request))
    if lack is not None:
        raise Denied(command, f"No default permission for {_named(lack.topic)}")


def authenticated(rules: AccessRules, command: Command, ip: str) -> Account | None:
    """The account that signed; None where its trusted address needs no signature. Raises Denied."""
    fields = field_texts(command.fields)
    access_key = fields.get(ACCESS_KEY)
    if access_key is None:
        raise Denied(command, "No accessKey is configured")
    account = rules.accounts.get(access_key)
    if account is not None and account.trusted_addresses.include(ip):
        return None
    secret = rules.decoy_secret if account is None else account.secret_key
    is_signed = has_valid_signature(fields, command.body, command.version, secret)
    if account is None or not is_signed:
        # The same text, and the same work, for an unknown key and for a wrong secret.
        raise Denied(
            command, f"Check signature failed for accessKey={access_key[:_SHOWN_SIZE_MAX]}"
        )
    return account


def _named(topic: str) -> str:
    shown = topic[: _SHOWN_SIZE_MAX + len(RETRY_PREFIX)]
    if shown.startswith(RETRY_PREFIX):
        return f"group:{shown.removeprefix(RETRY_PREFIX)}"
    return f"topic:{shown}"
