"""Our own tests with JVMs run twice when they fail, and then no more."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

tries = []

@pytest.mark.java
def test_once_slow():
    tries.append("slow")
    assert len(tries) == 2

@pytest.mark.java
def test_always_wrong():
    assert tries.append("wrong")

def test_without_java():
    assert tries.append("plain")

def test_the_tries():
    assert tries == ["slow", "slow", "wrong", "wrong", "plain"]
"""


def test_a_test_with_java_gets_a_second_try_and_is_named(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = java: starts something slow")
    pytester.makepyfile(TESTS)
    options = [f"-p no:{name}" for name in ("roquet", "xdist", "asyncio", "hypothesispytest")]
    result = pytester.runpytest("-p", "tests.support.second_try", *options)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*test_once_slow passed at its second try"])
    assert str(result.stdout).count("passed at its second try") == 1
