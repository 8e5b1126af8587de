"""A test whose JVM does not start is run twice, and then no more; nothing else is."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from tests.support.jars import JvmNotStarted

tries = []

@pytest.fixture
def jvm():
    tries.append("jvm")
    if len(tries) < 2:
        raise JvmNotStarted("out of memory")

@pytest.mark.java
def test_once_without_a_jvm(jvm):
    pass

@pytest.mark.java
def test_always_without_a_jvm():
    tries.append("never")
    raise JvmNotStarted("out of memory")

@pytest.mark.java
def test_wrong():
    assert tries.append("wrong")

def test_without_java():
    assert tries.append("plain")

def test_the_tries():
    assert tries == ["jvm", "jvm", "never", "never", "wrong", "plain"]
"""


def test_only_a_test_without_a_jvm_gets_a_second_try_and_is_named(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nmarkers = java: starts something slow")
    pytester.makepyfile(TESTS)
    options = [f"-p no:{name}" for name in ("roquet", "xdist", "asyncio", "hypothesispytest")]
    result = pytester.runpytest("-p", "tests.support.second_try", *options)
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*test_once_without_a_jvm passed at its second try"])
    assert str(result.stdout).count("passed at its second try") == 1
