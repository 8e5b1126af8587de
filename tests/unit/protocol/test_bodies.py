"""Rules that every declared body keeps."""

import inspect

import msgspec
import pytest

from roquet.protocol.bodies.body import Body
from tests.support.declared_bodies import declared_bodies


def test_all_declared_bodies_are_looked_at() -> None:
    assert len(declared_bodies()) > 70


@pytest.mark.parametrize("body_type", declared_bodies())
def test_members_stand_in_the_order_in_which_java_writes_them(body_type: type[Body]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(body_type)]
    assert names == sorted(names)


@pytest.mark.parametrize("body_type", declared_bodies())
def test_members_are_named_when_a_body_is_built(body_type: type[Body]) -> None:
    parameters = inspect.signature(body_type).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
