"""Signatures: the documented one, and all those of real clients; rights in Apache's words."""

from typing import Final

import pytest

from roquet.protocol.acl import (
    ACCESS_KEY,
    EITHER,
    SIGNATURE,
    Right,
    has_valid_signature,
    read_right,
    sign,
    signed_bytes,
)
from roquet.protocol.errors import BadRight
from roquet.protocol.fields import field_texts
from tests.support.golden_frames import GoldenFrame, golden_frames
from tests.support.raising import raises

FIELDS: Final = {
    "AccessKey": "RocketMQ",
    "topic": "TopicTest",
    "queueId": "0",
    "consumerGroup": "g1",
}
SECRETS: Final = {"RocketMQ": "12345678", "rocketmq2": "abcdefgh"}
SIGNED: Final = "nVsCcu9agMUhgOrTIdCqS4938qk="


def test_all_values_are_signed_in_the_order_of_their_names() -> None:
    content = signed_bytes(FIELDS, b"body", 409)
    assert content == b"RocketMQg10TopicTestbody"
    assert sign(content, "12345678") == SIGNED


def test_text_that_moves_to_the_next_field_is_not_noticed() -> None:
    """A weakness of Apache's protocol, and why requests of administrators are encrypted."""
    moved = FIELDS | {"consumerGroup": "g", "queueId": "10", SIGNATURE: SIGNED}
    assert has_valid_signature(moved, b"body", 409, "12345678")


def test_a_signature_is_valid_with_its_secret_only() -> None:
    fields = FIELDS | {SIGNATURE: SIGNED}
    assert has_valid_signature(fields, b"body", 409, "12345678")
    assert not has_valid_signature(fields, b"body", 409, "12345679")
    assert not has_valid_signature(fields, b"bodY", 409, "12345678")
    assert not has_valid_signature(fields | {"topic": "T"}, b"body", 409, "12345678")


@pytest.mark.parametrize("signature", [None, "", "x", SIGNED[:-1], SIGNED + "=", "\udcff", "é"])
def test_a_missing_or_malformed_signature_is_not_valid(signature: str | None) -> None:
    fields = FIELDS | ({} if signature is None else {SIGNATURE: signature})
    assert not has_valid_signature(fields, b"body", 409, "12345678")


def test_upper_case_names_come_first_and_empty_values_add_nothing() -> None:
    assert signed_bytes({"b": "1", "B": "2", "a": "", "A": "3"}, b"", 409) == b"321"


def test_names_are_ordered_by_utf16_units() -> None:
    # U+1F600 starts with the unit 0xD83D, which is below 0xFF5E.
    assert signed_bytes({"\uff5e": "2", "\U0001f600": "1"}, b"", 409) == b"12"


@pytest.mark.parametrize(("version", "content"), [(399, b"T"), (401, b"trueT"), (409, b"trueT")])
def test_old_clients_do_not_sign_the_unique_key_query(version: int, content: bytes) -> None:
    fields = {"_UNIQUE_KEY_QUERY": "true", "topic": "T"}
    assert signed_bytes(fields, b"", version) == content


def test_fields_added_after_signing_are_left_out() -> None:
    late = {"__ZONE_NAME": "z", "__ZONE_MODE": "m", SIGNATURE: "s"}
    assert signed_bytes(FIELDS | late, b"body", 409) == signed_bytes(FIELDS, b"body", 409)


def test_half_a_character_is_signed_as_a_question_mark() -> None:
    assert signed_bytes({"a": "\ud800"}, b"", 409) == b"?"


def signed_frames() -> list[GoldenFrame]:
    return [
        frame
        for frame in golden_frames()
        if frame.scenario.startswith("acl") and b'"Signature"' in frame.data
    ]


def test_every_recorded_signature_is_valid_unless_it_was_meant_to_be_wrong() -> None:
    valid = wrong = 0
    for frame in signed_frames():
        command = frame.command
        fields = field_texts(command.fields)
        secret = SECRETS.get(fields[ACCESS_KEY])
        if secret is None:
            continue
        if has_valid_signature(fields, command.body, command.version, secret):
            valid += 1
        else:
            wrong_secret = "wrongsecret"
            assert has_valid_signature(fields, command.body, command.version, wrong_secret)
            wrong += 1
    assert (valid, wrong) == (179, 18)


# --- rights ---


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("DENY", Right.DENY),
        ("PUB", Right.PUB),
        (" SUB ", Right.SUB),
        ("PUB|SUB", EITHER),
        ("SUB|PUB", EITHER),
    ],
)
def test_five_words_are_rights(text: str, right: Right) -> None:
    assert read_right(text) == right


@pytest.mark.parametrize("text", ["", "pub", "PUB,SUB", "ANY", "PUB|"])
def test_other_words_are_mistakes(text: str) -> None:
    with raises(BadRight, text=text):
        read_right(text)


def test_one_of_several_rights_is_enough_and_none_never_is() -> None:
    assert EITHER.suffices_for(Right.PUB)
    assert Right.SUB.suffices_for(EITHER)
    assert not Right.SUB.suffices_for(Right.PUB)
    assert not Right.DENY.suffices_for(EITHER)
