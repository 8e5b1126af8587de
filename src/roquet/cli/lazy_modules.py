"""Modules of other packages that a process loads when it first uses one of their names.

Importing asyncio imports `ssl`, which takes four megabytes, and most servers and commands never
encrypt anything.
"""

import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, cast, final


def load_lazily(*names: str) -> None:
    """Those that are loaded already stay; of the others, `import` makes an empty module.

    Its first attribute that is asked for loads it, in whatever thread that is.
    """
    sys.meta_path.insert(0, _LazyFinder(names))


@final
class _LazyFinder:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            # Its base class would import a package that nothing here needs.
            spec.loader = cast("Any", _LazyLoader(spec.loader))
        return spec


@final
class _LazyLoader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._lock = threading.RLock()
        self._is_loading = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        def load(name: str) -> Any:
            # Importing a module asks for names with underscores, and uses nothing of it.
            if not name.startswith("__"):
                self._load(module)
                if name in vars(module):
                    return vars(module)[name]
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        # Python calls it for names that the module does not have.
        vars(module)["__getattr__"] = load

    def _load(self, module: ModuleType) -> None:
        """Returns when the module is whole, unless it is this thread that is loading it."""
        with self._lock:
            if self._is_loading or "__getattr__" not in vars(module):
                return
            self._is_loading = True
            try:
                self._loader.exec_module(module)
            finally:
                self._is_loading = False
            del vars(module)["__getattr__"]
