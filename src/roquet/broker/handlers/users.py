"""Users and policies of 5.x as operators see and change them (3001-3010).

Unlike those of accounts, passwords are returned, as Apache does: its tool copies users from one
broker to another by reading them.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from roquet.access.errors import BadRules, RulesNotSaved, UnknownPolicy, UnknownUser
from roquet.broker.broker import Broker
from roquet.broker.handlers.answers import defer
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.brokers import Acl, User
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.brokers import (
    DeletePolicyHeader,
    ListPoliciesHeader,
    ListUsersHeader,
    PolicyHeader,
    UserHeader,
)

if TYPE_CHECKING:
    from roquet.access.user_store import UserStore

log = logging.getLogger(__name__)

# Apache's code for all that is wrong with a change.
_FAILURE = ResponseCode.NO_PERMISSION


def create(broker: Broker, request: Request[UserHeader]) -> Deferred:
    user = _given_user(request)
    what = f"created user {user.username} ({_shown(user)})"
    return _change(broker, request, lambda users: users.create(user), what)


def update(broker: Broker, request: Request[UserHeader]) -> Deferred:
    user = _given_user(request)
    what = f"changed user {user.username} ({_shown(user)})"
    return _change(broker, request, lambda users: users.update(user), what)


def delete(broker: Broker, request: Request[UserHeader]) -> Deferred:
    name = request.header.username
    return _change(broker, request, lambda users: users.delete(name), f"deleted user {name}")


def get(broker: Broker, request: Request[UserHeader]) -> Reply:
    """Nothing, if there is no such user, as in Apache."""
    user = _users(broker).find(request.header.username)
    return Reply() if user is None else Reply(body=write_body(user))


def list_all(broker: Broker, request: Request[ListUsersHeader]) -> Reply:
    return Reply(body=write_body(_users(broker).listed(request.header.filter)))


def put_policies(broker: Broker, request: Request[PolicyHeader]) -> Deferred:
    acl = replace(read_body(Acl, request.body), subject=request.header.subject)
    what = f"changed the policies of {acl.subject} ({_entries_text(acl)})"
    return _change(broker, request, lambda users: users.put_acl(acl), what)


def delete_policies(broker: Broker, request: Request[DeletePolicyHeader]) -> Deferred:
    header = request.header
    what = f"deleted policies of {header.subject} on {header.resource or 'everything'}"
    return _change(
        broker,
        request,
        lambda users: users.delete_acl(header.subject, header.resource, header.policy_type),
        what,
    )


def get_policies(broker: Broker, request: Request[PolicyHeader]) -> Reply:
    """Nothing for a user without policies, as in Apache."""
    try:
        acl = _users(broker).acl(request.header.subject)
    except UnknownPolicy:
        return Reply()
    except (BadRules, UnknownUser) as error:
        raise Refused(_FAILURE, str(error)) from None
    return Reply(body=write_body(acl))


def list_policies(broker: Broker, request: Request[ListPoliciesHeader]) -> Reply:
    header = request.header
    found = _users(broker).listed_acls(header.subject_filter, header.resource_filter)
    return Reply(body=write_body(found))


def _users(broker: Broker) -> "UserStore":
    if broker.access.users is None:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "there are no users here: see authenticationEnabled"
        )
    return broker.access.users


def _given_user(request: Request[UserHeader]) -> User:
    return replace(read_body(User, request.body), username=request.header.username)


def _change(
    broker: Broker,
    request: Request[Any],
    change: "Callable[[UserStore], Awaitable[None]]",
    what: str,
) -> Deferred:
    """`what` is done, for the log."""
    users = _users(broker)

    async def changed() -> Reply:
        try:
            await change(users)
        except (BadRules, RulesNotSaved, UnknownUser, UnknownPolicy) as error:
            return Reply(_FAILURE, remark=str(error))
        log.info("%s, as %s asked", what, request.sender)
        return Reply()

    return defer(broker.background, request, changed)


def _shown(user: User) -> str:
    """Without the password."""
    given = (user.user_type, user.user_status, "a password" if user.password else None)
    return ", ".join(filter(None, given))


def _entries_text(acl: Acl) -> str:
    return ", ".join(
        f"{entry.decision} {'/'.join(entry.actions or ())} on {entry.resource}"
        for policy in acl.policies or ()
        for entry in policy.entries or ()
    )


ROUTES = (
    on(RequestCode.AUTH_CREATE_USER, UserHeader, create),
    on(RequestCode.AUTH_UPDATE_USER, UserHeader, update),
    on(RequestCode.AUTH_DELETE_USER, UserHeader, delete),
    on(RequestCode.AUTH_GET_USER, UserHeader, get),
    on(RequestCode.AUTH_LIST_USER, ListUsersHeader, list_all),
    on(RequestCode.AUTH_CREATE_ACL, PolicyHeader, put_policies),
    on(RequestCode.AUTH_UPDATE_ACL, PolicyHeader, put_policies),
    on(RequestCode.AUTH_DELETE_ACL, DeletePolicyHeader, delete_policies),
    on(RequestCode.AUTH_GET_ACL, PolicyHeader, get_policies),
    on(RequestCode.AUTH_LIST_ACL, ListPoliciesHeader, list_policies),
)
