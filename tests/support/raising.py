"""Errors by their type and facts, so that their words can change."""

from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


def raises(kind: type[E], **facts: object) -> pytest.RaisesExc[E]:
    """As `pytest.raises`, for an error with these attributes."""

    def has_facts(error: E) -> bool:
        found = {name: getattr(error, name) for name in facts}
        assert found == facts, f"{error!r} has {found}"
        return True

    return pytest.raises(kind, check=has_facts)
