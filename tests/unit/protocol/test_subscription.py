"""Tag expressions, and which messages they match."""

import pytest

from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.java_hash import java_hash
from roquet.protocol.subscription import ExpressionType, parse_subscription


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_means_everything(expression: str | None) -> None:
    subscription = parse_subscription("T", expression)
    assert subscription.is_all
    assert subscription.expression == "*"
    assert subscription.matches_code(0)
    assert subscription.matches_code(12345)
    assert subscription.matches_tags(None)
    assert subscription.matches_tags("TagA")


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("TagA", ("TagA",)),
        ("TagA||TagB", ("TagA", "TagB")),
        (" TagA || TagB ", ("TagA", "TagB")),
        ("TagA||||TagB||", ("TagA", "TagB")),
        ("TagA||TagA", ("TagA",)),
        ("Tag|A", ("Tag|A",)),
        ("\tTagA\n", ("TagA",)),
        ("TagA\u00a0", ("TagA\u00a0",)),  # Java does not take this for a blank
        ("*||TagA", ("*", "TagA")),
        ("!TagA", ("!TagA",)),  # the first character that is no blank
    ],
)
def test_tags_are_separated_by_two_bars(expression: str, tags: tuple[str, ...]) -> None:
    subscription = parse_subscription("T", expression, version=17)
    assert subscription.tags == tags
    assert subscription.codes == {java_hash(tag) for tag in tags}
    assert subscription.expression == expression
    assert subscription.version == 17
    assert not subscription.is_all


def test_a_subscription_matches_its_tags_only() -> None:
    subscription = parse_subscription("T", "TagA || TagB")
    assert subscription.matches_code(2598919)
    assert not subscription.matches_code(0)
    assert not subscription.matches_code(java_hash("TagC"))
    assert subscription.matches_tags("TagB")
    assert not subscription.matches_tags("TagC")
    assert not subscription.matches_tags(None)


def test_equal_hashes_are_not_equal_tags() -> None:
    subscription = parse_subscription("T", "Aa")
    assert subscription.matches_code(java_hash("BB"))
    assert not subscription.matches_tags("BB")


def test_a_code_that_is_no_hash_matches() -> None:
    subscription = parse_subscription("T", "TagA")
    assert subscription.matches_code(-(2**31) - 1)
    assert not subscription.matches_code(-(2**31))


@pytest.mark.parametrize("expression", ["||", " ", " || ", "||||"])
def test_an_expression_without_tags_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        parse_subscription("T", expression)


def test_an_sql_expression_is_kept_as_it_is() -> None:
    subscription = parse_subscription("T", "a > 1", "SQL92", 17)
    assert subscription.expression_type is ExpressionType.SQL92
    assert subscription.expression == "a > 1"
    assert not subscription.is_all
    assert subscription.matches_code(0)
    assert subscription.matches_tags("TagA")


def test_an_sql_expression_of_one_star_is_not_everything() -> None:
    assert not parse_subscription("T", "*", "SQL92").is_all


@pytest.mark.parametrize("expression", [None, ""])
def test_an_empty_sql_expression_is_refused(expression: str | None) -> None:
    with pytest.raises(BadExpression):
        parse_subscription("T", expression, "SQL92")


def test_an_unknown_expression_type_is_refused() -> None:
    with pytest.raises(BadExpression, match="'REGEX'"):
        parse_subscription("T", ".*", "REGEX")


def test_the_size_of_an_expression_is_bounded() -> None:
    assert parse_subscription("T", "a" * 65536).tags == ("a" * 65536,)
    with pytest.raises(TooLarge):
        parse_subscription("T", "a" * 65537)
