import time

import msgspec
import pytest

from roquet.protocol import lenient_json
from roquet.protocol.errors import BadBody
from roquet.protocol.lenient_json import (
    NESTING_DEPTH_MAX,
    REFERENCED_SIZE_MAX,
    strict_json,
    with_bare_integer_keys,
)


def values_of(text: bytes) -> object:
    return msgspec.json.decode(strict_json(text))


@pytest.mark.parametrize(
    ("dialect", "strict"),
    [
        (b'{0:"a",1:"b"}', b'{"0":"a","1":"b"}'),
        (b'{"t":{-3 : 1,\n\t12:2}}', b'{"t":{"-3" : 1,\n\t"12":2}}'),
        (b'{{"a":1,"b":"c"}:5}', b'{"{\\"a\\":1,\\"b\\":\\"c\\"}":5}'),
        (b'{"t":{{"a":1}:{"n":2},{"a":2} :3}}', b'{"t":{"{\\"a\\":1}":{"n":2},"{\\"a\\":2}" :3}}'),
        (b'{{"a":"}:{\\"x"}:5}', b'{"{\\"a\\":\\"}:{\\\\\\"x\\"}":5}'),
    ],
)
def test_bare_keys_become_texts(dialect: bytes, strict: bytes) -> None:
    assert strict_json(dialect) == strict
    assert msgspec.json.decode(strict)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":[1,{"b":-2}],"c":{}}',
        b'{"text":"{0:1} {{}:2} \\"3:4","n":1.5e3}',
        b'["5",":",6,"{",":"]',
        b"{'a':1}",
        b"",
        b'"never ends {0:1}',
        b'{"a":"\\',
    ],
)
def test_what_has_no_bare_key_stays_as_it_is(text: bytes) -> None:
    assert strict_json(text) == text


def test_nulls_are_dropped_from_objects_and_kept_in_lists() -> None:
    assert values_of(b'{"a":null,"b":[null,{"c":null}],"d":"null"}') == {
        "b": [None, {}],
        "d": "null",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"a":{"n":1},"b":{"$ref":"$.a"}}', {"a": {"n": 1}, "b": {"n": 1}}),
        (b'{"a":[[1],{"$ref":"$.a[0]"}]}', {"a": [[1], [1]]}),
        (b'{"a":{0:{"n":1}},"b":{"$ref":"$.a[0]"}}', {"a": {"0": {"n": 1}}, "b": {"n": 1}}),
        (b'{"a":{"%R%g":{}},"b":{"$ref":"$.a.\\\\%R\\\\%g"}}', {"a": {"%R%g": {}}, "b": {}}),
        (b'{"a":{"x.[0]":{}},"b":{"$ref":"$.a.x\\\\.\\\\[0\\\\]"}}', {"a": {"x.[0]": {}}, "b": {}}),
        (b'{"a":{"b":{"$ref":"$.c"}},"c":[1],"d":{"$ref":"$.a"}}',
         {"a": {"b": [1]}, "c": [1], "d": {"b": [1]}}),
        (b'{"a":{"$ref":1},"b":{"$ref":"$.a","n":2}}',
         {"a": {"$ref": 1}, "b": {"$ref": "$.a", "n": 2}}),
    ],
)  # fmt: skip
def test_references_are_replaced_by_what_they_name(text: bytes, expected: object) -> None:
    assert values_of(text) == expected


@pytest.mark.parametrize("reference", [b"$", b"..", b"@", b"$.a", b"$.a.b"])
def test_a_reference_to_what_encloses_it_is_dropped_like_null(reference: bytes) -> None:
    text = b'{"a":{"b":{"c":{"$ref":"%b"},"n":1}}}' % reference
    assert values_of(text) == {"a": {"b": {"n": 1}}}


@pytest.mark.parametrize(
    "reference",
    [
        b'"$.b"',
        b'"$.a[0]"',
        b'"$.a.n.x"',
        b'"$.l[1]"',
        b'"$.l.x"',
        b'"$.x"',
        b'"a"',
        b'"$a"',
        b'"$.a\\\\"',
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(reference: bytes) -> None:
    with pytest.raises(BadBody):
        strict_json(b'{"a":{"n":1},"l":[{}],"x":{"$ref":%b}}' % reference)


def test_references_cannot_name_each_other() -> None:
    with pytest.raises(BadBody, match="names a reference"):
        strict_json(b'{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}')
    with pytest.raises(BadBody):
        strict_json(b'{"$ref":"$"}')


def test_references_cannot_multiply_a_body_without_end() -> None:
    levels = [b'"l0":["%b"]' % (b"x" * 1000)]
    levels += [
        b'"l%d":[%b]' % (level, b",".join([b'{"$ref":"$.l%d"}' % (level - 1)] * 10))
        for level in range(1, 10)
    ]
    with pytest.raises(BadBody, match=f"more than {REFERENCED_SIZE_MAX} bytes"):
        strict_json(b"{%b}" % b",".join(levels))


def test_the_number_of_texts_and_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lenient_json, "TOKEN_COUNT_MAX", 100)
    assert strict_json(b'1:"a"' * 49)
    with pytest.raises(BadBody, match="more than 100 texts"):
        strict_json(b'1:"a"' * 50)


def test_nesting_is_bounded_where_values_are_copied() -> None:
    deepest = b"[" * (NESTING_DEPTH_MAX - 1) + b"]" * (NESTING_DEPTH_MAX - 1)
    assert strict_json(b'{"a":null,"b":%b}' % deepest) == b'{"b":%b}' % deepest
    with pytest.raises(BadBody, match=f"nested deeper than {NESTING_DEPTH_MAX}"):
        strict_json(b'{"a":null,"b":[%b]}' % deepest)


@pytest.mark.parametrize("text", [b'{"a":null', b"null,", b'{{"\xff":1}:2}', b"[null," * 100_000])
def test_unreadable_text_is_refused(text: bytes) -> None:
    with pytest.raises(BadBody):
        strict_json(text)


@pytest.mark.parametrize(
    "piece",
    [
        b'\\"',
        b'"\\"',
        b"1",
        b"-",
        b"1 ",
        b" ",
        b"{",
        b'{"',
        b"{}",
        b"{0",
        b"{0:",
        b'{"a" ',
        b"}",
        b"{1}  ",
        b",{{}:",
    ],
)
@pytest.mark.slow
def test_hostile_text_takes_linear_time(piece: bytes) -> None:
    """A quadratic search would need hours for this; a linear one needs half a second."""
    text = b'"' + piece * (1_000_000 // len(piece))
    started = time.process_time()
    strict_json(text)
    strict_json(text[1:])
    assert time.process_time() - started < 30


@pytest.mark.parametrize(
    ("strict", "bare"),
    [
        (b'{"brokerAddrs":{"0":"a","-1":"b"},"1":{"12":{}}}',
         b'{"brokerAddrs":{0:"a",-1:"b"},1:{12:{}}}'),
        (b'["0",{"a":"0"},"x,\\"1\\":2"]', b'["0",{"a":"0"},"x,\\"1\\":2"]'),
        (b'{"a":",","b":"{"}', b'{"a":",","b":"{"}'),
    ],
)  # fmt: skip
def test_only_integer_keys_are_unquoted_for_old_clients(strict: bytes, bare: bytes) -> None:
    assert with_bare_integer_keys(strict) == bare
    assert strict_json(bare) == strict
