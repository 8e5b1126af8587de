"""Yes and no as Java reads them."""

import pytest

from roquet.settings.truth import is_plain_truth, read_truth, truth_text


@pytest.mark.parametrize(
    ("text", "value", "is_plain"),
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
def test_only_true_is_true_in_any_case(text: str, value: bool, is_plain: bool) -> None:
    assert read_truth(text) is value
    assert is_plain_truth(text) is is_plain


def test_what_is_written_is_read_back() -> None:
    assert [read_truth(truth_text(each)) for each in (True, False)] == [True, False]
