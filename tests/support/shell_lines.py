"""Whether a line of a page is a command that there is: ours by its parser, others by their name."""

import re
import shlex
import subprocess
from importlib.util import find_spec

from roquet.cli.main import parser_for
from tests.support.page_blocks import ROOT

# Programs of others that a reader may have. Text for them is not checked.
OF_OTHERS = frozenset(
    {
        *("cd", "cp", "mkdir", "mv", "rsync", "source", "tar", "useradd"),
        *("curl", "docker", "kubectl", "journalctl", "systemctl", "systemd-analyze"),
        *("pip", "pytest", "spark-submit"),
    }
)
_PLACE = re.compile(r"(?:deploy|docs|examples|scripts)/\S+")
_OPERATORS = frozenset({"<", ">", ">>", "|", "&", "&&", "||", ";"})


def fault_of(line: str) -> str | None:
    """What is wrong with it, if anything is."""
    parsed = subprocess.run(["bash", "-nc", line], capture_output=True, text=True, check=False)
    if parsed.returncode:
        return parsed.stderr
    for words in _commands(line):
        if fault := _fault_of_one(words):
            return fault
    return None


def _commands(line: str) -> list[list[str]]:
    """The words of each, without what is redirected to where."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="<>|&;")
    reader.whitespace_split = True
    found: list[list[str]] = [[]]
    is_place = False
    for word in reader:
        if word in _OPERATORS:
            is_place = word[0] in "<>"
            if not is_place:
                found.append([])
        elif not is_place:
            found[-1].append(word)
        else:
            is_place = False
    return found


def _fault_of_one(words: list[str]) -> str | None:
    while words and (words[0] == "sudo" or re.match(r"[A-Z_]+=", words[0])):
        words = words[1:]
    missing = [word for word in words if _PLACE.fullmatch(word) and not (ROOT / word).exists()]
    if missing:
        return f"there is no {missing[0]}"
    match [word.removeprefix(".venv/bin/") for word in words]:
        case ["roquet", *arguments]:
            return _fault_of_ours(arguments)
        case ["make", *targets]:
            return _fault_of_targets(targets)
        case ["python" | "python3", "-m", module, *_]:
            return None if find_spec(module) else f"there is no module {module}"
        case ["python" | "python3", *_]:
            return None
        case [program, *_] if program in OF_OTHERS:
            return None
        case _:
            return f"{words} is no command that is known here"


def _fault_of_ours(arguments: list[str]) -> str | None:
    try:
        parser_for(arguments).parse_args(arguments)
    except SystemExit as end:
        return f"`roquet {shlex.join(arguments)}` is refused" if end.code else None
    return None


def _fault_of_targets(words: list[str]) -> str | None:
    made = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    strange = [word for word in words if "=" not in word and word not in made]
    return f"the Makefile does not make {strange}" if strange else None
