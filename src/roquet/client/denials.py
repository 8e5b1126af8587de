"""Why access control refused a request, as far as the remark of the reply shows.

Brokers of 4.9 have no code for it: they answer with a system error, which otherwise may pass.
"""

from enum import Enum, auto
from typing import Final


class Denial(Enum):
    """What is wrong with the account of a request."""

    NO_CREDENTIALS = auto()  # the request is not signed
    WRONG_CREDENTIALS = auto()  # the account does not exist, or its secret is another one
    NO_RIGHT = auto()  # the account may not do this


# Apache's sentences, which our brokers use as well.
_SENTENCES: Final = {
    "No accessKey is configured": Denial.NO_CREDENTIALS,
    "Check signature failed": Denial.WRONG_CREDENTIALS,
    "No acl config for": Denial.WRONG_CREDENTIALS,
    "No default permission for": Denial.NO_RIGHT,
    "Need admin permission": Denial.NO_RIGHT,
    "has no permission": Denial.NO_RIGHT,
    # The class of the exception, before other text of a broker.
    "acl.common.AclException": Denial.NO_RIGHT,
}


def denial_in(text: str | None) -> Denial | None:
    """Of a remark, or of an error that quotes one; None if access control did not refuse."""
    return next((each for part, each in _SENTENCES.items() if part in (text or "")), None)
