"""What a user may do, by its policies."""

from roquet.access.policies import (
    Action,
    Decision,
    PolicyRule,
    ResourceKind,
    Wanted,
    read_resource,
)
from roquet.access.users import User, UserRules, refusal

HERE = "10.0.0.7"


def wanted(name: str, kind: ResourceKind = ResourceKind.TOPIC) -> Wanted:
    return Wanted(kind, name, frozenset({Action.SUB}))


def rule(resource: str, decision: Decision = Decision.ALLOW) -> PolicyRule:
    return PolicyRule(read_resource(resource), frozenset({Action.ALL}), decision)


def test_all_that_a_request_wants_has_to_be_allowed() -> None:
    user = User(name="ann", password="p", custom=(rule("Topic:orders"),))
    assert refusal(user, [wanted("orders")], HERE) is None
    text = refusal(user, [wanted("orders"), wanted("billing", ResourceKind.GROUP)], HERE)
    assert text == (
        "user ann has no permission for Sub on Group:billing from 10.0.0.7: no policy matches"
    )


def test_a_user_without_policies_may_do_nothing_that_wants_one() -> None:
    user = User(name="ann", password="p")
    assert refusal(user, [], HERE) is None
    assert refusal(user, [wanted("orders")], HERE) is not None


def test_a_super_user_may_do_everything_whatever_its_policies_are() -> None:
    user = User(name="ann", password="p", is_super=True, custom=(rule("*", Decision.DENY),))
    assert refusal(user, [wanted("orders")], HERE) is None


def test_default_policies_decide_where_no_other_matches() -> None:
    user = User(
        name="ann",
        password="p",
        custom=(rule("Topic:o*", Decision.DENY),),
        default=(rule("Topic:orders"), rule("Topic:bills")),
    )
    assert refusal(user, [wanted("bills")], HERE) is None
    text = refusal(user, [wanted("orders")], HERE)
    assert text is not None
    assert text.endswith("denied for Topic:o*")


def test_no_password_is_shown() -> None:
    user = User(name="ann", password="hush")
    assert "hush" not in repr(user) + repr(UserRules(users={"ann": user}))
