"""The one place that decides whether a request is allowed: routers ask it before the handler.

The order is Apache's: trusted addresses, a known access key, addresses that its account trusts,
the signature, and then the rights. A refusal does not reveal whether an account exists. An access
key is that of a user of 5.x, if there is one of that name, or else that of an account of 4.x.
"""

import logging
from typing import Any, Final, final

import msgspec

from roquet.access.account_store import AccountStore
from roquet.access.accounts import AccessRules, Account, lacking
from roquet.access.actions import wanted_of
from roquet.access.user_store import UserStore
from roquet.access.users import User, UserRules, refusal
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
_NO_ACCOUNTS: Final = AccessRules()
_NO_USERS: Final = UserRules()


class Denied(Refused):
    """A system error for 4.9; 5.x has a code of its own, and users of 5.x get that anyway."""

    def __init__(self, command: Command, reason: str, *, is_user: bool = False) -> None:
        if is_user or command.version >= VERSION_5_0_0:
            super().__init__(ResponseCode.NO_PERMISSION, reason)
        else:
            super().__init__(ResponseCode.SYSTEM_ERROR, _APACHE_PREFIX + reason)
        self.reason = reason


class GuardedUsers(msgspec.Struct, frozen=True, kw_only=True):
    """Users of 5.x, and which of their requests are checked."""

    store: UserStore
    cluster_name: str
    # Whether policies are obeyed; without them every user may do everything.
    authorization: bool = True
    # Codes of requests that need no user, and no policy.
    unauthenticated: tuple[str, ...] = ()
    unauthorized: tuple[str, ...] = ()

    def is_open(self, code: int) -> bool:
        """Whether a request needs neither a user nor a policy."""
        return str(code) in self.unauthenticated and not self.needs_policy(code)

    def needs_policy(self, code: int) -> bool:
        return self.authorization and str(code) not in self.unauthorized


# Who sent a request; None where no account is needed.
Sender = Account | User | None


@final
class AccessGuard:
    """Checks each request against the accounts and users in force at that time.

    `denied_count` is how many requests were refused.
    """

    def __init__(
        self, accounts: AccountStore | None, clock: Clock, users: GuardedUsers | None = None
    ) -> None:
        load_signing()
        self._accounts = accounts
        self._users = users
        self._log = ThrottledLog(log, clock.monotonic_s)
        self.denied_count = 0

    def identify(self, command: Command, connection: Connection) -> Sender:
        """Whose request it is; None where a trusted address needs no account. Raises Denied.

        Called before the header is read: without an account, nothing is learned from its errors.
        """
        try:
            return self._identified(command, connection.peer_address.ip)
        except Denied as denied:
            self._note(command, connection, denied)
            raise

    def account_name(self, sender: Sender) -> str | None:
        if sender is None:
            return None
        return sender.name if isinstance(sender, User) else sender.access_key

    def check(
        self,
        sender: Sender,
        server: Any,
        request: Request[Any],
        needs: Needs[Any, Any] | None,
    ) -> None:
        """Raises Denied, and what a bad body raises when the needs are read from it."""
        try:
            if isinstance(sender, User):
                self._check_policies(sender, server, request, needs)
            else:
                _check_rights(sender, server, request, needs)
        except Denied as denied:
            self._note(request.command, request.connection, denied)
            raise

    def may_replicate(self, ip: str) -> bool:
        """Whether a replica may read the log from there, over a link that has no signatures."""
        return self._accounts is not None and self._accounts.rules.may_replicate(ip)

    def tick(self) -> None:
        """Called once a second: logs how many more requests were refused."""
        self._log.flush()

    def _identified(self, command: Command, ip: str) -> Sender:
        users = self._users
        if users is not None and users.is_open(command.code):
            return None
        rules = _NO_ACCOUNTS if self._accounts is None else self._accounts.rules
        if rules.trusts(ip):
            return None
        known = _NO_USERS if users is None else users.store.rules
        user = authenticated_user(known, command)
        return authenticated(rules, command, ip) if user is None else user

    def _check_policies(
        self, user: User, server: Any, request: Request[Any], needs: Needs[Any, Any] | None
    ) -> None:
        """Raises Denied."""
        users = self._users
        assert users is not None
        if not users.needs_policy(request.command.code):
            return
        wanted = wanted_of(users.cluster_name, server, request, needs)
        reason = refusal(user, wanted, request.connection.peer_address.ip)
        if reason is not None:
            raise Denied(request.command, reason, is_user=True)

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


def authenticated_user(rules: UserRules, command: Command) -> User | None:
    """The user that signed; None if no user has the access key. Raises Denied."""
    fields = field_texts(command.fields)
    user = rules.users.get(fields.get(ACCESS_KEY, ""))
    if user is None:
        return None
    if not has_valid_signature(fields, command.body, command.version, user.password):
        raise _wrong_signature(command, user.name, is_user=True)
    if not user.is_enabled:
        raise Denied(command, f"user {user.name} is disabled", is_user=True)
    return user


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
        raise _wrong_signature(command, access_key)
    return account


def _wrong_signature(command: Command, access_key: str, *, is_user: bool = False) -> Denied:
    reason = f"Check signature failed for accessKey={access_key[:_SHOWN_SIZE_MAX]}"
    return Denied(command, reason, is_user=is_user)


def _named(topic: str) -> str:
    shown = topic[: _SHOWN_SIZE_MAX + len(RETRY_PREFIX)]
    if shown.startswith(RETRY_PREFIX):
        return f"group:{shown.removeprefix(RETRY_PREFIX)}"
    return f"topic:{shown}"
