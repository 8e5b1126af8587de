"""Where to listen, as operators say it: HOST:PORT, or a port alone for this machine only."""

from typing import Final

from roquet.net.peers import split_address
from roquet.protocol.host import Address

_LOOPBACK: Final = "127.0.0.1"


def read_place(text: str) -> Address:
    """Raises BadAddress. A bare port is for this machine only, not for all addresses."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        text = f"{_LOOPBACK}:{text}"
    return Address(*split_address(text))
