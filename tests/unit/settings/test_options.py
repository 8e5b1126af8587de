"""Options: how they are declared, parsed, written and refused."""

from enum import Enum
from types import SimpleNamespace

import pytest

from roquet.settings.options import (
    BOOLEAN,
    COUNT,
    NAMES,
    NOT_SHOWN,
    STRICT_BOOLEAN,
    ConfigError,
    Option,
    OptionKind,
    Unsupported,
    UnsupportedOption,
    by_name,
    format_boolean,
    format_options,
    is_clear_boolean,
    is_more_than_one,
    number_within,
    one_of,
    parse_boolean,
    parse_options,
    refuse_unsupported,
    unclear_booleans,
)
from tests.support.raising import raises


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


OPTIONS = by_name(
    Option("size", COUNT, "size", is_changeable=True),
    Option("colour", one_of(Colour), "colour"),
    Option("names", NAMES, "names"),
    Option("isOpen", BOOLEAN, "is_open"),
)


def test_given_options_are_parsed_by_attribute_and_written_back() -> None:
    texts = {"size": " 3 ", "colour": "blue", "names": "a; b", "other": "x"}
    values = parse_options(OPTIONS, texts)
    assert values == {"size": 3, "colour": Colour.BLUE, "names": ("a", "b")}
    config = SimpleNamespace(**values, is_open=None)
    assert format_options(OPTIONS, config) == {"size": "3", "colour": "blue", "names": "a;b"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("size", "0", "a number from 1 to 2147483647"),
        ("size", "1_000", "a number from 1 to 2147483647"),
        ("colour", "Blue", "red or blue"),
    ],
)
def test_an_error_names_the_option_the_text_and_what_is_allowed(
    name: str, text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(OPTIONS, {name: text})
    error = caught.value
    assert (error.key, error.text, error.reason) == (name, text, f"expected {expected}")


def test_a_kind_may_say_more_than_what_it_expects_in_general() -> None:
    def parse(text: str) -> str:
        raise ValueError(f"a pattern: {text} is not closed")

    with raises(ConfigError, key="pattern", reason="expected a pattern: a( is not closed"):
        Option("pattern", OptionKind("a pattern", parse)).parse("a(")


def test_a_secret_is_not_shown() -> None:
    def parse(text: str) -> str:
        raise ValueError(text)

    with pytest.raises(ConfigError) as caught:
        Option("secret", OptionKind("a secret", parse, is_secret=True)).parse("hush")
    assert "hush" not in str(caught.value)
    assert caught.value.text == NOT_SHOWN


def test_choices_may_ignore_case_and_numbers_may_be_clamped() -> None:
    assert one_of(Colour, ignore_case=True).parse("RED") is Colour.RED
    assert [number_within(2, 4).parse(text) for text in ("1", "3", "9")] == [2, 3, 4]


# --- booleans ---


@pytest.mark.parametrize(
    ("text", "value", "is_clear"),
    [
        ("true", True, True),
        ("TRUE", True, True),
        (" tRuE ", True, True),
        ("false", False, True),
        ("False", False, True),
        ("yes", False, False),
        ("1", False, False),
        ("", False, False),
        ("truee", False, False),
    ],
)
def test_only_true_is_true_in_any_case(text: str, value: bool, is_clear: bool) -> None:
    assert parse_boolean(text) is value
    assert is_clear_boolean(text) is is_clear
    assert unclear_booleans(OPTIONS, {"isOpen": text}) == ([] if is_clear else ["isOpen"])


def test_what_is_written_is_read_back() -> None:
    assert [parse_boolean(format_boolean(each)) for each in (True, False)] == [True, False]


def test_a_strict_boolean_is_true_or_false() -> None:
    assert STRICT_BOOLEAN.parse("True")
    with raises(ConfigError, key="isSafe", text="yes"):
        Option("isSafe", STRICT_BOOLEAN).parse("yes")


# --- options that are not supported ---


@pytest.mark.parametrize(
    "settings",
    [
        {"tlsEnable": "true"},
        {"tls.ciphers": "TLS_AES_128_GCM_SHA256"},
        {"tlsTestModeEnable": "true"},
    ],
)
def test_encryption_is_refused_under_every_name_that_is_not_an_option(
    settings: dict[str, str],
) -> None:
    ((key, text),) = settings.items()
    with raises(UnsupportedOption, key=key, text=text):
        refuse_unsupported({}, settings)


def test_an_option_may_say_that_encryption_is_not_wanted() -> None:
    refuse_unsupported({}, {"tls.enable": "False", "tls.server.mode": "disabled"})


def test_a_refusal_names_the_option_the_feature_and_the_remedy() -> None:
    users = Unsupported(parse_boolean, "users in a database", "use aclEnable")
    with pytest.raises(UnsupportedOption) as caught:
        refuse_unsupported({"authenticationEnabled": users}, {"authenticationEnabled": "true"})
    assert str(caught.value).startswith("authenticationEnabled=true is not supported")
    assert caught.value.unsupported is users


def test_what_is_no_number_of_replicas_is_not_taken_for_one() -> None:
    assert [text for text in ("", "0", "1", "2", "all", "1.5") if is_more_than_one(text)] == [
        "2",
        "all",
        "1.5",
    ]
