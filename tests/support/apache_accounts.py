"""Access control of Apache's brokers, as it was until 4.x: an account that may do everything."""

from pathlib import Path
from typing import Final

from roquet import Credentials

OPERATOR: Final = Credentials("operator", "operator-secret")
ACCESS_CONTROL: Final = {"aclEnable": "true"}

_ACCOUNTS: Final = f"""\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {OPERATOR.access_key}
  secretKey: {OPERATOR.secret_key}
  whiteRemoteAddress:
  admin: true
"""


def write_accounts(broker_directory: Path) -> None:
    """Before the broker starts there, with `ACCESS_CONTROL` in its configuration."""
    configuration = broker_directory / "conf"
    configuration.mkdir(parents=True)
    (configuration / "plain_acl.yml").write_text(_ACCOUNTS)
