"""docs/errors.md has every error and every response code, once."""

import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import roquet
from roquet.errors import RoquetError
from roquet.protocol.codes import ResponseCode
from tests.support.page_blocks import DOCS

TEXT = (DOCS / "errors.md").read_text()
_ERROR_ROW = re.compile(r"^\| `((?:\w+\.)?[A-Z]\w+)` \|(.*)\|$", re.MULTILINE)
_CODE_ROW = re.compile(r"^\| (\d+) \| (\w+) \|(.*)\|$", re.MULTILINE)


def all_errors(root: type[Exception] = RoquetError) -> Iterator[type[Exception]]:
    for error in root.__subclasses__():
        yield error
        yield from all_errors(error)


def test_every_error_is_there_once() -> None:
    for module in walk_packages(roquet.__path__, "roquet."):
        # Models exist only in a project of Django; there are no errors.
        if not module.name.startswith("roquet.outbox.django."):
            import_module(module.name)
    public = {
        error
        for error in all_errors()
        if error.__module__.startswith("roquet.") and not error.__name__.startswith("_")
    }
    counts = Counter(error.__name__ for error in public)
    names = {
        # Where two have one name, their room is in front of it.
        error.__name__
        if counts[error.__name__] == 1
        else f"{error.__module__.split('.')[-2]}.{error.__name__}"
        for error in public
    }
    reported = [name for name, _ in _ERROR_ROW.findall(TEXT)]
    assert sorted(reported) == sorted(names)


def test_every_error_has_a_meaning_and_those_for_people_a_remedy() -> None:
    for_people, _, internal = TEXT.partition("## Internal errors")
    for text, column_count in ((for_people, 2), (internal, 1)):
        for name, cells in _ERROR_ROW.findall(text):
            reported = [cell.strip() for cell in re.split(r"(?<!\\)\|", cells)]
            assert all(reported), name
            assert len(reported) >= column_count, name


def test_every_response_code_is_there_once() -> None:
    reported = [(int(code), name) for code, name, _ in _CODE_ROW.findall(TEXT)]
    assert reported == [(code.value, code.name) for code in ResponseCode]
