"""Curves made of letters."""

import pytest

from roquet.cli.bench.counting import sparkline


@pytest.mark.parametrize(
    ("values", "curve"),
    [([], ""), ([0, 0], "▁▁"), ([0, 50, 100], "▁▅█"), ([7], "█"), ([-1, 1], "▁█")],
)
def test_the_largest_is_full(values: list[float], curve: str) -> None:
    assert sparkline(values) == curve
