"""With ROQUET_SIGNED=1 brokers of ours want signatures, and everybody who talks to them signs.

So every scenario of `tests/interop` that has nothing to do with accounts can be run once more, as
`tests/interop/test_signed_suites.py` does. Name servers let in everybody, as Apache's do.
"""

import os
from pathlib import Path
from typing import Final

from tests.support.accounts import Signer

VARIABLE: Final = "ROQUET_SIGNED"
IS_SIGNED: Final = bool(os.environ.get(VARIABLE))

# Who makes topics and asks brokers about themselves.
OPERATOR: Final = Signer("operator", "operator-secret")
# Who sends and consumes, and may nothing else.
CLIENT: Final = Signer("client-key", "client-secret")

_ACCOUNTS: Final = f"""\
accounts:
- accessKey: {OPERATOR.access_key}
  secretKey: {OPERATOR.secret_key}
  admin: true
- accessKey: {CLIENT.access_key}
  secretKey: {CLIENT.secret_key}
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
"""


def operator() -> Signer | None:
    return OPERATOR if IS_SIGNED else None


def client() -> Signer | None:
    return CLIENT if IS_SIGNED else None


def broker_settings(directory: Path) -> dict[str, str]:
    """What makes a broker want signatures, if it has to."""
    if not IS_SIGNED:
        return {}
    path = directory / "plain_acl.yml"
    path.write_text(_ACCOUNTS)
    return {"aclEnable": "true", "aclFile": str(path)}
