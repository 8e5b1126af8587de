"""Everything public is found in the package itself, and loaded when it is first used."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

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
