"""What an operator changes about accounts: from the documents of before to one of after. Pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import asdict, replace

from roquet.access.errors import BadRules, UnknownAccount
from roquet.access.rules_text import RulesDocument
from roquet.protocol.bodies.accounts import PlainAccount

Documents = Mapping[Path, RulesDocument]


class Changed(NamedTuple):
    path: Path
    document: RulesDocument


def put_account(documents: Documents, default: Path, changes: PlainAccount) -> Changed:
    """Changes an account where it is, or makes one in the default file.

    What is None stays as it was; whether it is an administrator is always said.
    """
    path = _place_of(documents, changes.access_key)
    if path is None:
        document = documents.get(default, RulesDocument())
        return Changed(default, _with_accounts(document, *(document.accounts or ()), changes))
    document = documents[path]
    given = {name: value for name, value in asdict(changes).items() if value is not None}
    return Changed(
        path,
        _with_accounts(
            document,
            *(
                replace(each, **given) if each.access_key == changes.access_key else each
                for each in document.accounts or ()
            ),
        ),
    )


def delete_account(documents: Documents, access_key: str) -> Changed:
    """Raises UnknownAccount."""
    path = _place_of(documents, access_key)
    if path is None:
        raise UnknownAccount(access_key)
    document = documents[path]
    rest = [each for each in document.accounts or () if each.access_key != access_key]
    return Changed(path, _with_accounts(document, *rest))


def trust_addresses(documents: Documents, path: Path, addresses: list[str]) -> Changed:
    """Raises BadRules for a file that is none of ours: no request names a path."""
    if path not in documents:
        raise BadRules(None, f"{str(path)[:200]!r} is no file of accounts here")
    return Changed(path, replace(documents[path], global_white_remote_addresses=addresses))


def _place_of(documents: Documents, access_key: str) -> Path | None:
    for path, document in documents.items():
        if any(each.access_key == access_key for each in document.accounts or ()):
            return path
    return None


def _with_accounts(document: RulesDocument, *accounts: PlainAccount) -> RulesDocument:
    return replace(document, accounts=list(accounts))
