"""Promises that all servers refuse, and how a text makes one."""

import pytest

from roquet.settings.promises import (
    PromiseNotKept,
    is_more_than_one,
    refuse_what_is_not_kept,
)


@pytest.mark.parametrize(
    "settings",
    [
        {"tlsEnable": "true"},
        {"tls.ciphers": "TLS_AES_128_GCM_SHA256"},
        {"tlsTestModeEnable": "true"},
    ],
)
def test_encryption_is_refused_under_every_name_that_nobody_has_read(
    settings: dict[str, str],
) -> None:
    with pytest.raises(PromiseNotKept, match="encrypted"):
        refuse_what_is_not_kept({}, settings)


def test_who_wants_no_encryption_may_say_so() -> None:
    refuse_what_is_not_kept({}, {"tls.enable": "False", "tls.server.mode": "disabled"})


def test_what_is_no_number_of_copies_is_not_taken_for_one() -> None:
    assert [text for text in ("", "0", "1", "2", "all", "1.5") if is_more_than_one(text)] == [
        "2",
        "all",
        "1.5",
    ]
