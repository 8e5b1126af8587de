"""Where to listen, as operators say it."""

import pytest

from roquet.net.addresses import read_place
from roquet.net.errors import BadAddress


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("9877", ("127.0.0.1", 9877)),
        ("0", ("127.0.0.1", 0)),
        (" 0.0.0.0:9877 ", ("0.0.0.0", 9877)),  # noqa: S104
        ("[::1]:1", ("::1", 1)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_without_a_host_it_is_this_machine_only(text: str, place: tuple[str, int]) -> None:
    assert read_place(text) == place


@pytest.mark.parametrize("text", ["", ":9877", "host", "host:", "70000", "1:70000", "a:b", "-1"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        read_place(text)
