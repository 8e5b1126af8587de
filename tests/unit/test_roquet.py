"""Everything public is found in the package itself, and loaded when it is first used."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import roquet
from roquet.client import errors, hooks
from roquet.errors import RoquetError


def public_classes(module: ModuleType) -> Iterator[str]:
    for name, each in vars(module).items():
        if inspect.isclass(each) and each.__module__ == module.__name__ and name[0] != "_":
            yield name


@pytest.mark.parametrize("name", roquet.__all__)
def test_what_is_promised_is_there(name: str) -> None:
    assert getattr(roquet, name) is not None
    assert name in dir(roquet)


@pytest.mark.parametrize("module", [errors, hooks])
def test_all_errors_and_hooks_are_public(module: ModuleType) -> None:
    assert set(public_classes(module)) <= set(roquet.__all__)


def test_errors_are_of_one_family() -> None:
    assert all(issubclass(getattr(roquet, name), RoquetError) for name in public_classes(errors))


def test_rooms_are_loaded_when_they_are_named() -> None:
    program = (
        "import sys, roquet; "
        "assert not any(name.startswith('roquet.') and name != 'roquet.errors'"
        " for name in sys.modules), [n for n in sys.modules if n.startswith('roquet')]; "
        "roquet.testing.Cluster; roquet.pipeline.register"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_type_checker_and_a_program_see_the_same_names() -> None:
    tree = ast.parse(Path(roquet.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported.keys() | {"RoquetError"} == set(roquet.__all__)
    for name, home in imported.items():
        assert home is not None
        assert getattr(import_module(home), name) is getattr(roquet, name)


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = roquet.Nothing


# What programs meet in signatures, and may want to catch.

CLASSES = [
    value
    for name in roquet.__all__
    if inspect.isclass(value := getattr(roquet, name)) and value.__module__.startswith("roquet")
]
CAPITALIZED = re.compile(r"\b[A-Z][A-Za-z]+\b")


def public_functions(owner: type) -> Iterator[Any]:
    """Its constructor and its public methods and properties."""
    for name, member in inspect.getmembers(owner):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, property):
            yield member.fget
        elif inspect.isfunction(member) and member.__module__.startswith("roquet"):
            yield member


def hints_of(thing: Any) -> dict[str, Any]:
    """What type checkers see, also of what is imported for them alone."""
    module = inspect.getmodule(thing)
    names = {**vars(roquet), **{name: getattr(roquet, name) for name in roquet.__all__}}
    names["pa"] = pa
    return typing.get_type_hints(thing, {**names, **vars(module)})


def parts_of(hint: Any) -> Iterator[type]:
    """The classes that a hint is made of."""
    if typing.is_typeddict(hint):
        for each in hints_of(hint).values():
            yield from parts_of(each)
    elif inspect.isclass(hint) and not isinstance(hint, types.GenericAlias):
        yield hint
    for argument in typing.get_args(hint):
        if isinstance(argument, list):
            for each in argument:
                yield from parts_of(each)
        else:
            yield from parts_of(argument)


def is_public(part: type) -> bool:
    return not part.__module__.startswith("roquet") or (
        part.__name__ in roquet.__all__ and getattr(roquet, part.__name__) is part
    )


@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: owner.__name__)
def test_what_signatures_speak_of_is_public(owner: type) -> None:
    spoken_of = {
        part
        for function in public_functions(owner)
        for hint in hints_of(function).values()
        for part in parts_of(hint)
    }
    if dataclasses.is_dataclass(owner):
        spoken_of |= {part for hint in hints_of(owner).values() for part in parts_of(hint)}
    assert {part for part in spoken_of if not is_public(part)} == set()


TEST_KIT = [getattr(roquet.testing, name) for name in roquet.testing.__all__]


@pytest.mark.parametrize("owner", TEST_KIT, ids=lambda owner: owner.__name__)
def test_every_method_of_the_test_kit_says_what_it_does(owner: type) -> None:
    methods = [each for each in public_functions(owner) if each.__name__ != "__init__"]
    assert [each.__name__ for each in methods if not each.__doc__] == []


def all_errors(root: type[Exception] = RoquetError) -> Iterator[type[Exception]]:
    for error in root.__subclasses__():
        yield error
        yield from all_errors(error)


@pytest.mark.parametrize("owner", CLASSES, ids=lambda owner: owner.__name__)
def test_what_documentation_says_is_raised_can_be_caught(owner: type) -> None:
    errors = {error.__name__ for error in all_errors()}
    documents = [owner, *public_functions(owner)]
    named = {
        name
        for document in documents
        for name in CAPITALIZED.findall(raising_part(document.__doc__ or ""))
        if name in errors
    }
    assert named <= set(roquet.__all__)


def raising_part(text: str) -> str:
    _, _, raising = text.partition("Raises ")
    return raising


def test_a_type_that_is_not_public_would_be_found() -> None:
    stranger = type("Message", (RoquetError,), {"__module__": "roquet.elsewhere"})
    assert not is_public(stranger)
    assert is_public(roquet.Message)
    assert [*parts_of(dict[str, list[int] | None])] == [str, int, types.NoneType]
