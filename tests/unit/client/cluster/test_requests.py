"""The fast port of a broker, computed from its address."""

import pytest

from roquet.client.cluster.requests import fast_address


@pytest.mark.parametrize(
    ("address", "fast"),
    [
        ("10.0.0.1:10911", "10.0.0.1:10909"),
        ("[::1]:10911", "[::1]:10909"),
        ("nonsense", "nonsense"),
    ],
)
def test_it_is_two_below(address: str, fast: str) -> None:
    assert fast_address(address) == fast
