"""Which account a call is of, and whether that may make it.

    authorization: MQv2-HMAC-SHA1 Credential=KEY, SignedHeaders=x-mq-date-time, Signature=HEX

The signature is that of the header x-mq-date-time. As with remoting, what is refused does not
reveal whether an account exists.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Final

from roquet.access.accounts import AccessRules, Account, lacking
from roquet.access.needs import group_need
from roquet.broker.broker import Broker
from roquet.grpc.calls import Call
from roquet.grpc.codes import Code, RefusedCall
from roquet.grpc.schema import Message
from roquet.net.router import Need
from roquet.protocol.acl import EITHER, Right

_AUTHORIZATION: Final = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=([^,/]*)[^,]*, *SignedHeaders=x-mq-date-time,"
    r" *Signature=([0-9a-fA-F]*) *"
)


def check_access(broker: Broker, call: Call, needs: Iterable[Need]) -> None:
    """Raises RefusedCall. Without access control everything is allowed."""
    accounts = broker.access.accounts
    if accounts is None:
        return
    account = _authenticated(accounts.rules, call)
    lack = None if account is None else lacking(account, needs)
    if lack is not None:
        text = f"account {account.access_key!r} has no right to {lack.topic}" if account else ""
        raise RefusedCall(Code.UNAUTHORIZED, text)


def _authenticated(rules: AccessRules, call: Call) -> Account | None:
    """None where a trusted address needs no account. Raises RefusedCall."""
    ip = call.connection.peer_ip
    if rules.trusts(ip):
        return None
    found = _AUTHORIZATION.fullmatch(call.metadata.get("authorization", ""))
    if found is None or not found[1]:
        text = "this broker has access control: give the SDK an access key and its secret"
        raise RefusedCall(Code.UNAUTHORIZED, text)
    account = rules.accounts.get(found[1])
    if account is not None and account.trusted_addresses.include(ip):
        return None
    secret = rules.decoy_secret if account is None else account.secret_key
    signed = call.metadata.get("x-mq-date-time", "").encode("latin-1")
    # SHA-1 is what SDKs sign with.
    signature = hmac.new(secret.encode(), signed, hashlib.sha1).hexdigest()
    if account is None or not hmac.compare_digest(signature, found[2].lower()):
        text = f"the signature of access key {found[1][:100]!r} is not valid"
        raise RefusedCall(Code.UNAUTHORIZED, text)
    return account


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
