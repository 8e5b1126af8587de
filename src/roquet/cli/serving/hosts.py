"""Hosts as options: which ones may be given."""

from argparse import ArgumentTypeError

from roquet.net.addresses import is_wildcard


def reachable_host_name(text: str) -> str:
    """Raises ArgumentTypeError."""
    if is_wildcard(text.strip()):
        raise ArgumentTypeError(f"{text!r} is no host that clients can connect to")
    return text.strip()
