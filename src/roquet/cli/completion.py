"""`roquet completion`: prints a completion script for a shell.

A module of its own, as each command is: only the chosen one is loaded.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Final

_SHELLS: Final = ("bash", "zsh", "fish")
_EPILOG: Final = """\
bash: roquet completion bash > ~/.local/share/bash-completion/completions/roquet
zsh:  roquet completion zsh > "${fpath[1]}/_roquet"
fish: roquet completion fish > ~/.config/fish/completions/roquet.fish
"""


def define(parser: ArgumentParser) -> None:
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.description = f"Print a script that completes commands and options.\n\n{_EPILOG}"
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    # Loaded on request only: all commands, and the library.
    from shtab import complete  # noqa: PLC0415

    from roquet.cli.main import whole_parser  # noqa: PLC0415

    print(complete(whole_parser(), given.shell))
    return 0
