"""The rules of CONTRIBUTING.md that a machine can check, over the files that git tracks.

Each rule comes with an example that breaks it: a rule that finds nothing there finds nothing
anywhere. Words that a rule forbids everywhere are spelled in pieces, or this file would break it.
"""

import ast
import logging
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

import pytest

# All of them share one look at the files.
pytestmark = pytest.mark.xdist_group("tidy")

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[1]

# Goals of the style guide, reported only; and what no reason excuses.
FILE_LINES_GOAL, FILE_LINES_MAX = 500, 1000
MODULE_LINES_MIN, MODULE_LINES_MAX = 60, 600
FUNCTION_LINES_GOAL, FUNCTION_LINES_MAX = 60, 120

# A handler must not end its connection, a background task must not end in silence, it is unknown
# what the functions of a program raise, and a waiter in another thread gets every error.
MAY_CATCH_EVERYTHING = (
    "src/roquet/net/router.py",
    "src/roquet/net/service.py",
    "src/roquet/grpc/methods.py",
    "src/roquet/client/callbacks.py",
    "src/roquet/client/push/workers.py",
    "src/roquet/middleware/retry_policy.py",
    "src/roquet/client/blocking/loop_thread.py",
)


class Source:
    """The text of a file; it is parsed once for all rules, if one of them wants to know."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def statements(self) -> list[ast.AST]:
        """Also those in functions and handlers; expressions are left out, which are most nodes."""
        found: list[ast.AST] = [self.tree]
        for node in found:  # It grows meanwhile.
            for part in ("body", "handlers", "orelse", "finalbody", "cases"):
                found += getattr(node, part, ())
        return found


Find = Callable[[Source], Iterator[int]]


class Rule(NamedTuple):
    """`find` gives the lines of a file that break the rule."""

    claim: str
    applies: Callable[[str], bool]
    find: Find
    example: str


# --- which files ---


@cache
def tracked() -> tuple[str, ...]:
    """Not the recorded data, which is not ours to tidy, and nothing deleted but not committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return tuple(
        name
        for name in listed.split("\0")
        if name
        and (ROOT / name).is_file()
        and (not name.startswith("tests/golden/") or name.endswith(".md"))
    )


def source_of(name: str) -> Source:
    # Pictures are tracked too; they have no lines worth reading, but must not fail here.
    return Source((ROOT / name).read_text(encoding="utf-8", errors="replace"))


def is_any(_name: str) -> bool:
    return True


def is_python(name: str) -> bool:
    return name.endswith(".py")


def is_source(name: str) -> bool:
    return is_python(name) and name.startswith("src/")


def is_test(name: str) -> bool:
    return is_python(name) and name.startswith("tests/") and not name.startswith("tests/support/")


def may_not_catch_everything(name: str) -> bool:
    return is_python(name) and name not in MAY_CATCH_EVERYTHING


# --- what to find ---


def lines_with(pattern: str) -> Find:
    search = re.compile(pattern).search

    def find(source: Source) -> Iterator[int]:
        if search(source.text):  # Line by line it takes ten times as long.
            yield from (number for number, line in enumerate(source.lines, 1) if search(line))

    return find


def imports_of(*banned: str) -> Find:
    def find(source: Source) -> Iterator[int]:
        for node in source.statements:
            match node:
                case ast.Import(names):
                    modules = [alias.name for alias in names]
                case ast.ImportFrom(module=str() as module):
                    modules = [module]
                case _:
                    continue
            if any(module.partition(".")[0] in banned for module in modules):
                yield node.lineno

    return find


def calls_of(*banned: str) -> Find:
    words = re.compile("|".join(name.rpartition(".")[2] for name in banned))

    def find(source: Source) -> Iterator[int]:
        for node in source.nodes if words.search(source.text) else ():
            if isinstance(node, ast.Call) and dotted_name(node.func) in banned:
                yield node.lineno

    return find


def dotted_name(node: ast.expr) -> str:
    """ "os.system" and the like; nothing for what has no name."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(ast.Name(module), name):
            return f"{module}.{name}"
        case _:
            return ""


def shells(source: Source) -> Iterator[int]:
    for node in source.nodes if "shell" in source.text else ():
        if isinstance(node, ast.keyword) and node.arg == "shell":
            yield node.value.lineno


def broad_excepts(source: Source) -> Iterator[int]:
    """One that ends by raising again only cleans up, which is fine."""
    for node in source.statements:
        if isinstance(node, ast.ExceptHandler):
            caught = {"Exception"} if node.type is None else set(names_in(node.type))
            is_raised_again = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
            if caught & {"Exception", "BaseException"} and not is_raised_again:
                yield node.lineno


def names_in(node: ast.expr) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def missing_docstring(source: Source) -> Iterator[int]:
    if ast.get_docstring(source.tree) is None:
        yield 1


# --- the rules ---

MACHINE_DIRECTORIES = ("home", "root", "work", "Users")
REGISTRY_HOSTS = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("maven", "org"),
    ("maven", "apache", "org"),
    ("npmjs", "org"),
    ("anaconda", "org"),
    ("crates", "io"),
)
LATER = ("TO" + "DO", "FIX" + "ME")

RULES = (
    Rule(
        "no path of somebody's machine is written down",
        is_any,
        lines_with(rf"(?<![\w.$}}])/(?:{'|'.join(MACHINE_DIRECTORIES)})/"),
        f'log_directory = "/{MACHINE_DIRECTORIES[0]}/me/logs"',
    ),
    Rule(
        "no package registry is named",
        is_any,
        lines_with("|".join(r"\.".join(host) for host in REGISTRY_HOSTS)),
        f"https://{'.'.join(REGISTRY_HOSTS[0])}/simple",
    ),
    Rule(
        "nothing is put off in a comment",
        is_any,
        lines_with(rf"\b(?:{'|'.join(LATER)})\b"),
        f"# {LATER[0]}: later",
    ),
    Rule(
        "nothing unpickles, for that runs whatever it reads",
        is_source,
        imports_of("pickle", "cloudpickle", "dill", "marshal", "shelve"),
        "from pickle import loads",
    ),
    Rule(
        "no text becomes code",
        is_source,
        calls_of("eval", "exec", "compile", "__import__"),
        "eval(text)",
    ),
    Rule("no command goes through a shell", is_source, shells, "run(command, shell=True)"),
    Rule(
        "no command goes through a shell unseen",
        is_source,
        calls_of("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
        "os.system(command)",
    ),
    Rule(
        "only the router, the services and who passes on what others raise catch everything",
        may_not_catch_everything,
        broad_excepts,
        "try:\n    run()\nexcept (OSError, Exception):\n    pass",
    ),
    Rule(
        "a test waits for a condition, not for time to pass",
        is_test,
        calls_of("time.sleep", "sleep"),
        "time.sleep(1)",
    ),
    Rule("every module says what it is for", is_source, missing_docstring, "import os"),
)


class Module(NamedTuple):
    """What is kept of a file of `src`: all their trees at once would take a gigabyte."""

    line_count: int
    classes: list[str]
    imports: set[str]

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls(len(source.lines), list(classes_in(source)), set(imports_in(source)))


class Survey(NamedTuple):
    """What one look at all files has shown."""

    broken: dict[str, list[str]]  # by the claim of the rule
    file_sizes: list[tuple[str, int]]
    function_sizes: list[tuple[str, int]]
    modules: dict[str, Module]


@cache
def survey() -> Survey:
    found = Survey({rule.claim: [] for rule in RULES}, [], [], {})
    for name in tracked():
        source = source_of(name)
        for rule in RULES:
            if rule.applies(name):
                found.broken[rule.claim] += (f"{name}:{line}" for line in rule.find(source))
        if is_python(name):
            found.file_sizes.append((name, len(source.lines)))
            found.function_sizes.extend(
                (f"{name}:{function}", size) for function, size in function_sizes(source)
            )
        if is_source(name):
            found.modules[name] = Module.of(source)
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.claim)
def test_the_tree_keeps_the_rule(rule: Rule) -> None:
    assert not survey().broken[rule.claim]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.claim)
def test_the_rule_sees_its_example(rule: Rule) -> None:
    assert list(rule.find(Source(rule.example)))


def test_a_handler_that_raises_again_is_no_broad_except() -> None:
    cleaning_up = "try:\n    run()\nexcept BaseException:\n    stop()\n    raise"
    assert not list(broad_excepts(Source(cleaning_up)))


def test_the_files_with_rules_exist() -> None:
    assert any(map(is_source, tracked()))
    assert any(map(is_test, tracked()))


DRAWERS = frozenset(
    {"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc", "stuff"}
)


def test_there_are_no_drawers() -> None:
    drawers = [name for name in tracked() if DRAWERS & set(Path(name).with_suffix("").parts)]
    assert not drawers


def without_a_package(names: Collection[str]) -> list[str]:
    """Tests below tests/unit whose folder is no package of `src`."""
    packages = {
        Path(name).parent.relative_to("src/roquet")
        for name in names
        if name.startswith("src/roquet/") and name.endswith(".py")
    }
    tests = (Path(name) for name in names if re.search(r"^tests/unit/.*test_\w+\.py$", name))
    return [str(test) for test in tests if test.parent.relative_to("tests/unit") not in packages]


def test_unit_tests_mirror_the_packages() -> None:
    assert not without_a_package(tracked())


def test_a_unit_test_of_no_package_is_seen() -> None:
    modules = ["src/roquet/disk.py", "src/roquet/store/__init__.py"]
    good = ["tests/unit/test_disk.py", "tests/unit/store/test_recovery.py"]
    bad = ["tests/unit/stores/test_recovery.py"]
    assert without_a_package([*modules, *good, *bad, "tests/unit/store/conftest.py"]) == bad


def classes_in(source: Source) -> Iterator[str]:
    """The names of its public classes; those of functions and of other classes are theirs alone."""
    return (
        node.name
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def names_of_several(modules: Mapping[str, Module]) -> dict[str, list[str]]:
    """The files of one top-level package that have a class of the same name, by that name."""
    places = defaultdict(list)
    for file, module in modules.items():
        for name in module.classes:
            places[Path(file).parts[:3], name].append(file)
    return {name: files for (_, name), files in places.items() if len(files) > 1}


def test_one_word_means_one_thing() -> None:
    assert not names_of_several(survey().modules)


def test_a_name_of_two_classes_in_one_package_is_seen() -> None:
    twice = Module.of(Source("class Piece: pass\nclass _Row: pass"))
    files = [
        "src/roquet/pipeline/sink.py",
        "src/roquet/pipeline/lake.py",
        "src/roquet/net/peers.py",
    ]
    assert names_of_several(dict.fromkeys(files, twice)) == {"Piece": files[:2]}


def function_sizes(source: Source) -> Iterator[tuple[str, int]]:
    for node in source.statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_files_and_functions_have_a_readable_size(
    record_property: Callable[[str, object], None],
) -> None:
    """What is over the goal is logged (`pytest -rP` shows it) and goes into the report, no more."""
    files, functions = survey().file_sizes, survey().function_sizes
    sizes = [(what, size, FILE_LINES_GOAL, FILE_LINES_MAX) for what, size in files]
    sizes += [(what, size, FUNCTION_LINES_GOAL, FUNCTION_LINES_MAX) for what, size in functions]
    for what, size, goal, _ in sizes:
        if size > goal:
            log.warning("%s has %d lines, the goal is %d", what, size, goal)
            record_property("over the goal", f"{what}: {size}")
    assert not [what for what, size, _, limit in sizes if size > limit]


# Modules of fewer lines that only one other module imports, and why they stand alone.
SMALL_FOR_A_REASON = {
    "src/roquet/cli/completion.py": "a command: only a shell that asks for it loads it",
    "src/roquet/cli/producers.py": "a command",
    "src/roquet/cli/version.py": "loaded by --version alone: it starts git in a checkout",
    "src/roquet/grpc/in_broker/server.py": "loaded if there is a port for it",
    "src/roquet/pipeline/sql/stores.py": "loaded if a statement reads a store directory",
    "src/roquet/pipeline/sql/topics.py": "loaded if a statement reads topics of a cluster",
    "src/roquet/pipeline/store_source/batch.py": "needs Spark, which what reads a store does not",
    "src/roquet/outbox/django/apps.py": "where Django looks for it",
    "src/roquet/outbox/django/management/commands/relay_outbox.py": "where Django looks for it",
    "src/roquet/outbox/django/migrations/0001_initial.py": "where Django looks for it",
    "src/roquet/outbox/django/models.py": "where Django looks for it",
}


def module_of(name: str) -> str:
    parts = Path(name).with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_in(source: Source) -> Iterator[str]:
    """Modules and what is imported of them; a name in a text counts, too: commands are loaded
    that way."""
    for node in source.nodes:
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str() as module, names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str() as text):
                yield text


def fragments(modules: Mapping[str, Module]) -> list[str]:
    importer_counts = Counter(chain.from_iterable(each.imports for each in modules.values()))
    return [
        name
        for name, module in modules.items()
        if module.line_count < MODULE_LINES_MIN
        and not name.endswith("__init__.py")
        and importer_counts[module_of(name)] < 2
    ]


def test_a_small_module_has_two_importers_or_a_reason() -> None:
    assert set(fragments(survey().modules)) == SMALL_FOR_A_REASON.keys()


def test_no_module_is_two_modules() -> None:
    modules = survey().modules
    assert not [name for name, each in modules.items() if each.line_count > MODULE_LINES_MAX]


def test_a_fragment_is_seen() -> None:
    sources = {
        "src/roquet/net/loop.py": Source("from roquet.net.threads import run"),
        "src/roquet/net/threads.py": Source("def run(): ..."),
        "src/roquet/net/service.py": Source("x = 1\n" * MODULE_LINES_MIN),
    }
    modules = {name: Module.of(source) for name, source in sources.items()}
    assert fragments(modules) == ["src/roquet/net/loop.py", "src/roquet/net/threads.py"]


COMPILED_SHARE_MAX = 0.2


def test_most_of_the_source_is_python() -> None:
    """What is compiled decides nothing, and there is not much of that."""
    lines = {
        kind: sum(
            Path(name).read_text().count("\n")
            for name in tracked()
            if name.startswith("src/") and name.endswith(kind)
        )
        for kind in ((".py",), (".pyx", ".pxd", ".h"))
    }
    python, compiled = lines.values()
    assert 0 < compiled < COMPILED_SHARE_MAX * (python + compiled)
