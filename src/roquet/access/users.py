"""Users of RocketMQ 5 and what their policies allow; pure.

The file of users is read in `user_file` and kept by `user_store`. What each request does with
which resource is in `actions`.
"""

from collections.abc import Iterable, Mapping
from typing import final

import msgspec

from roquet.access.policies import Decision, PolicyRule, Wanted, deciding


@final
class User(msgspec.Struct, frozen=True, kw_only=True):
    """`default` decides where no entry of `custom` matches."""

    name: str
    password: str
    is_super: bool = False
    is_enabled: bool = True
    custom: tuple[PolicyRule, ...] = ()
    default: tuple[PolicyRule, ...] = ()

    def __repr__(self) -> str:
        return f"User({self.name!r})"


def refusal(user: User, wanted: Iterable[Wanted], ip: str) -> str | None:
    """Why a request is not allowed; None if it is. A super user may do everything."""
    if user.is_super:
        return None
    for each in wanted:
        rule = deciding(user.custom, each, ip) or deciding(user.default, each, ip)
        if rule is None or rule.decision is Decision.DENY:
            actions = "/".join(sorted(each.actions))
            why = "no policy matches" if rule is None else f"denied for {rule.resource}"
            return f"user {user.name} has no permission for {actions} on {each} from {ip}: {why}"
    return None


@final
class UserRules(msgspec.Struct, frozen=True, kw_only=True):
    """All that a guard checks; replaced as a whole when the file has changed."""

    users: Mapping[str, User] = {}

    def __repr__(self) -> str:
        return f"Rules of {len(self.users)} users"
