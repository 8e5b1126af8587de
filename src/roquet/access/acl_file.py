"""A file of accounts: Apache's `plain_acl.yml`, read and written.

    globalWhiteRemoteAddresses:
    - 10.10.103.*
    accounts:
    - accessKey: shop-front
      secretKey: 12345678
      whiteRemoteAddress:
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms:
      - orders=PUB|SUB
      groupPerms:
      - billing=SUB
    dataVersion:
    - counter: 1
      timestamp: 1794775022694

All values but nulls are texts, as Java reads them: a secret of digits is not a number.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from roquet.access.accounts import AccessRules, Account
from roquet.access.addresses import Addresses, read_addresses
from roquet.access.errors import BadRules
from roquet.protocol.acl import Right, read_right
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.brokers import AccountConfig
from roquet.protocol.errors import BadRight
from roquet.protocol.names import retry_topic

if TYPE_CHECKING:
    import yaml


T = TypeVar("T", bound=msgspec.Struct)

# Apache's own limit, for keys and secrets.
KEY_SIZE_MIN: Final = 7
_NULL_TAG: Final = "tag:yaml.org,2002:null"


class _Account(AccountConfig, kw_only=True, forbid_unknown_fields=True):
    """A misspelled name would be a missing right, or worse."""


class RulesDocument(
    msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The content of one file, unchanged."""

    global_white_remote_addresses: list[str] | None = None
    accounts: list[_Account] | None = None
    data_version: list[DataVersion] | None = None

    @property
    def version(self) -> DataVersion:
        return self.data_version[0] if self.data_version else DataVersion()


def read_document(content: bytes) -> RulesDocument:
    """Raises BadRules."""
    return read_yaml(content, RulesDocument)


def read_yaml(content: bytes, kind: type[T]) -> T:
    """Raises BadRules."""
    # Without access control it is never loaded.
    import yaml  # noqa: PLC0415

    try:
        found = yaml.load(content, _text_loader())  # noqa: S506  It is a safe loader.
        return msgspec.convert(found or {}, kind, strict=False)
    except yaml.MarkedYAMLError as error:
        # No more of the error: it may quote the line, and the secret on it.
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise BadRules(None, f"line {line} is not YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadRules(None, f"not YAML: {type(error).__name__}") from None
    except msgspec.ValidationError as error:
        raise BadRules(None, str(error)) from None


def write_document(document: RulesDocument) -> bytes:
    return write_yaml(document)


def write_yaml(document: msgspec.Struct) -> bytes:
    import yaml  # noqa: PLC0415

    text: str = yaml.safe_dump(msgspec.to_builtins(document), sort_keys=False)
    return text.encode()


def rules_of(documents: Mapping[Path, RulesDocument]) -> AccessRules:
    """All files together. Raises BadRules."""
    accounts: dict[str, Account] = {}
    addresses: list[Addresses] = []
    for path, document in documents.items():
        try:
            addresses += map(read_addresses, document.global_white_remote_addresses or ())
            _add_accounts(accounts, document)
        except BadRules as error:
            raise BadRules(path, error.reason) from None
    trusted = tuple(each for each in addresses if each.patterns)
    return AccessRules(accounts=accounts, trusted_addresses=trusted)


def _add_accounts(accounts: dict[str, Account], document: RulesDocument) -> None:
    for account in map(account_of, document.accounts or ()):
        if account.access_key in accounts:
            raise BadRules(None, f"duplicate account {account.access_key[:100]!r}")
        accounts[account.access_key] = account


def account_of(config: AccountConfig) -> Account:
    """Raises BadRules."""
    key = config.access_key
    if len(key) < KEY_SIZE_MIN or len(config.secret_key or "") < KEY_SIZE_MIN:
        raise BadRules(
            None, f"access key {key[:100]!r} and its secret need {KEY_SIZE_MIN} characters or more"
        )
    try:
        return Account(
            access_key=key,
            secret_key=config.secret_key or "",
            is_admin=config.admin,
            trusted_addresses=read_addresses(config.white_remote_address or ""),
            topic_right=read_right(config.default_topic_perm or "DENY"),
            group_right=read_right(config.default_group_perm or "DENY"),
            rights=dict(_named_rights(config.topic_perms))
            | {retry_topic(name): right for name, right in _named_rights(config.group_perms)},
        )
    except (BadRight, BadRules) as error:
        raise BadRules(None, f"account {key[:100]!r}: {error}") from None


def _named_rights(texts: Iterable[str] | None) -> Iterable[tuple[str, Right]]:
    for text in texts or ():
        name, sign, right = text.partition("=")
        if not sign or not name.strip():
            raise BadRules(None, f"{text[:100]!r} is not of the form NAME=RIGHT")
        yield name.strip(), read_right(right)


def _text_loader() -> "type[yaml.SafeLoader]":
    import yaml  # noqa: PLC0415

    # Not the compiled one: brackets in brackets, a hundred thousand deep, would end the process.
    class TextLoader(yaml.SafeLoader):
        """Only nulls are no texts."""

        yaml_implicit_resolvers: Any = {  # noqa: RUF012  As in its base.
            first: [(tag, pattern) for tag, pattern in resolvers if tag == _NULL_TAG]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    return TextLoader
