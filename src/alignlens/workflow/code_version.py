"""A short hash of the code a pipeline step uses, so that Snakemake reruns a step when its code changes.

Rules call the package through the command line, so Snakemake itself cannot see a change under ``src/``. A step
uses its command module and everything of this package that it imports, directly or through others, also inside
functions. A package that looks through its own folder (``__path__``) uses all modules in it. ``cli/main.py`` only
dispatches and does not count.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from functools import cache
from pathlib import Path
from pkgutil import iter_modules

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT.name


@cache
def code_version(*modules: str) -> str:
    """Returns a hash over the files of the modules (``alignlens.cli.score``) and of all they import of alignlens."""
    digest = hashlib.sha256()
    for path in sorted(set().union(*(files_of(module) for module in modules))):
        digest.update(path.relative_to(_ROOT).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def commit_of(project: Path) -> str:
    """Returns the commit of a checkout, with a plus if it was changed since, or nothing outside of git."""
    command = ["git", "-C", str(project), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


@cache
def files_of(module: str) -> frozenset[Path]:
    """Returns the files of a module and of all it imports of this package, with templates and C sources beside them."""
    paths: set[Path] = set()
    waiting = [module]
    while waiting:
        path = _file(waiting.pop())
        if path is None or path in paths:
            continue
        paths.add(path)
        paths.update(path.parent.glob("templates/*"), path.parent.glob("kernels/*"))
        waiting.extend(_imports(path))
    return frozenset(paths)


def _file(module: str) -> Path | None:
    """Returns the file of a module, or None for a name that is not a module (a function, a class)."""
    stem = _ROOT.joinpath(*module.split(".")[1:])
    for candidate in (stem.with_suffix(".py"), stem / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _imports(path: Path) -> tuple[str, ...]:
    """Returns the dotted names of this package that a file imports when it runs (not for type checking)."""
    content = path.read_bytes()
    names = _beside(path) if path.name == "__init__.py" and b"__path__" in content else []
    waiting: list[ast.AST] = [ast.parse(content)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names.extend(f"{node.module}.{alias.name}" for alias in node.names)
        # Imports are statements: what is inside expressions, most of a file, need not be looked at.
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            waiting.extend(getattr(node, block, ()))
    return tuple(name for name in names if name.split(".")[0] == _PACKAGE)


def _beside(path: Path) -> list[str]:
    """Returns the dotted names of all modules in the folder of a package."""
    package = ".".join((str(_PACKAGE), *path.parent.relative_to(_ROOT).parts))
    return [f"{package}.{module.name}" for module in iter_modules([str(path.parent)])]
