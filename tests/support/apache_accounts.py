"""Access control of Apache's brokers, as it was until 4.x and as it is since.

One account, which may do everything.
"""

import json
from pathlib import Path
from typing import Final

from roquet import Credentials

OPERATOR: Final = Credentials("operator", "operator-secret")
ACCESS_CONTROL: Final = {"aclEnable": "true"}

_AUTH: Final = "org.apache.rocketmq.auth"
_USER: Final = {"username": OPERATOR.access_key, "password": OPERATOR.secret_key}
_KEYS: Final = {"accessKey": OPERATOR.access_key, "secretKey": OPERATOR.secret_key}
# Of 5.x: users in a database, of which the first one is made at the start. Clients sign as before.
USERS: Final = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "initAuthenticationUser": json.dumps(_USER),
    "innerClientAuthenticationCredentials": json.dumps(_KEYS),
    "authorizationEnabled": "true",
    "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
}

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
