"""What helps against an error that servers or the network report, for operators."""

from typing import Final

from roquet.client.denials import Denial, denial_in
from roquet.net.errors import MAY_NEED_TLS

# Where commands find the credentials of an operator, besides a file.
ACCESS_KEY_VARIABLE: Final = "ROQUET_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "ROQUET_SECRET_KEY"  # noqa: S105  The name of one.

_CREDENTIALS: Final = f"~/.config/roquet.toml or {ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}"
_DENIALS: Final = {
    Denial.NO_CREDENTIALS: f"set credentials in {_CREDENTIALS}",
    Denial.WRONG_CREDENTIALS: f"correct access key and secret in {_CREDENTIALS}",
    Denial.NO_RIGHT: "the account is known, but may not do this: an administrator grants it"
    " with roquet account change ACCESS_KEY, or use another account",
}


def tls_remedy(reason: str) -> str | None:
    """For a server that was reached and wants TLS."""
    return "use --tls, with --tls-ca FILE for a private CA" if MAY_NEED_TLS in reason else None


def denial_remedy(text: str) -> str | None:
    """For a request that access control refused."""
    denial = denial_in(text)
    return None if denial is None else _DENIALS[denial]
