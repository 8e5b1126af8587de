"""Which account a call is of, and whether that may make it.

    authorization: MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX

The signature is that of the header x-mq-date-time. As with remoting, what is refused does not
reveal whether an account exists. A call that was overheard can be repeated for as long as its
signature is accepted, which a setting limits.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from roquet.access.accounts import AccessRules, Account, lacking
from roquet.access.needs import group_need
from roquet.access.policies import wanted_by
from roquet.access.users import User, UserRules, refusal
from roquet.grpc.calls import Call
from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.schema import Message
from roquet.net.router import Need
from roquet.protocol.acl import EITHER, Right

_AUTHORIZATION: Final = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=([^,/]*)[^,]*, *SignedHeaders=x-mq-date-time,"
    r" *Signature=([0-9a-fA-F]*) *"
)
_NO_ACCOUNTS: Final = AccessRules()
_SIGNED: Final = "x-mq-date-time"
_TIME_FORM: Final = "%Y%m%dT%H%M%SZ"


class CallRules(NamedTuple):
    """Accounts of 4.x, users of 5.x, and how they are checked."""

    accounts: AccessRules | None
    users: UserRules | None
    # Whether the policies of users are obeyed.
    has_policies: bool
    # Older signatures are refused; 0 accepts them for ever.
    signature_age_s_max: int


def check_signature(rules: CallRules, call: Call, needs: Iterable[Need], now_s: int) -> None:
    """Raises RefusedCall."""
    sender = _authenticated(rules, call)
    if sender is not None and rules.signature_age_s_max:
        _check_age(call, now_s, rules.signature_age_s_max)
    if isinstance(sender, User):
        if rules.has_policies:
            _check_policies(sender, call, needs)
        return
    lack = None if sender is None else lacking(sender, needs)
    if lack is not None:
        text = f"account {sender.access_key!r} has no right to {lack.topic}" if sender else ""
        raise RefusedCall(Code.UNAUTHORIZED, text)


def _check_policies(user: User, call: Call, needs: Iterable[Need]) -> None:
    reason = refusal(user, map(wanted_by, needs), call.connection.peer_ip)
    if reason is not None:
        raise RefusedCall(Code.UNAUTHORIZED, reason)


def _authenticated(given: CallRules, call: Call) -> Account | User | None:
    """None where a trusted address needs no account. Raises RefusedCall."""
    ip = call.connection.peer_ip
    rules = given.accounts or _NO_ACCOUNTS
    if rules.trusts(ip):
        return None
    found = _AUTHORIZATION.fullmatch(call.metadata.get("authorization", ""))
    if found is None or not found[1]:
        text = "there is access control here: give the SDK an access key and its secret"
        raise RefusedCall(Code.UNAUTHORIZED, text)
    user = None if given.users is None else given.users.users.get(found[1])
    if user is not None:
        _check_signature(call, found, user.password)
        if not user.is_enabled:
            raise RefusedCall(Code.UNAUTHORIZED, f"user {user.name} is disabled")
        return user
    account = rules.accounts.get(found[1])
    if account is not None and account.trusted_addresses.include(ip):
        return None
    _check_signature(call, found, None if account is None else account.secret_key)
    return account


def _check_signature(call: Call, found: re.Match[str], secret: str | None) -> None:
    """An unknown account takes as long as a known one. Raises RefusedCall."""
    signed = call.metadata.get(_SIGNED, "").encode("latin-1")
    # SHA-1 is what SDKs sign with.
    key = (_NO_ACCOUNTS.decoy_secret if secret is None else secret).encode()
    signature = hmac.new(key, signed, hashlib.sha1).hexdigest()
    if secret is None or not hmac.compare_digest(signature, found[2].lower()):
        text = f"the signature of access key {found[1][:100]!r} is not valid"
        raise RefusedCall(Code.UNAUTHORIZED, text)


def _check_age(call: Call, now_s: int, age_s_max: int) -> None:
    """Clocks may differ: what is signed in the future is as good as in the past."""
    try:
        time = datetime.strptime(call.metadata.get(_SIGNED, ""), _TIME_FORM).replace(tzinfo=UTC)
    except ValueError:
        raise RefusedCall(
            Code.UNAUTHORIZED, f"{_SIGNED} is no time like 20261118T093000Z"
        ) from None
    age_s = now_s - round(time.timestamp())
    if abs(age_s) > age_s_max:
        text = f"the call was signed {age_s} s ago, {age_s_max} are allowed: compare the clocks"
        raise RefusedCall(Code.UNAUTHORIZED, text)


# What each call needs.


def of_route(request: Message) -> tuple[Need, ...]:
    return (Need(request.topic.name, EITHER),)


def of_sends(request: Message) -> tuple[Need, ...]:
    return tuple(Need(each.topic.name, Right.PUB) for each in request.messages)


def of_end(request: Message) -> tuple[Need, ...]:
    return (Need(request.topic.name, Right.PUB),)


def of_receive(request: Message) -> tuple[Need, ...]:
    topic = request.message_queue.topic.name
    return (Need(topic, Right.SUB), group_need(request.group.name))


def of_receipt(request: Message) -> tuple[Need, ...]:
    return (Need(request.topic.name, Right.SUB), group_need(request.group.name))


def of_group(request: Message) -> tuple[Need, ...]:
    return (group_need(request.group.name),) if request.group.name else ()


def of_settings(settings: Message) -> tuple[Need, ...]:
    topics = [Need(each.name, Right.PUB) for each in settings.publishing.topics]
    return (*topics, *of_group(settings.subscription))
