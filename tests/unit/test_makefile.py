"""``make clean`` removes what is built, and says what it keeps."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

KEPT = ("src/alignlens/__init__.py", "docs/site/hooks.py", "results/README.md", "results/demo/report.html")
#: What installing, running, testing and building leave behind, one of each pattern of .gitignore but results.
BUILT = {
    "/.venv/": ".venv/bin/python",
    "/.snakemake/": ".snakemake/log/run.log",
    "__pycache__/": "docs/site/__pycache__/hooks.pyc",
    "*.egg-info/": "src/alignlens.egg-info/PKG-INFO",
    "/build/": "build/site/index.html",
    "*.so": "src/alignlens/attribution/gradients/_kernels.so",
    "/dist/": "dist/alignlens.whl",
    ".pytest_cache/": ".pytest_cache/README.md",
    ".mypy_cache/": ".mypy_cache/3.11/x.json",
    ".ruff_cache/": ".ruff_cache/x",
    ".hypothesis/": ".hypothesis/examples/x",
}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_clean_leaves_nothing_but_results(project: Path, tmp_path: Path) -> None:
    ignored = [line for line in (project / ".gitignore").read_text().split() if "results" not in line]
    assert sorted(ignored) == sorted(BUILT)
    shutil.copy(project / "Makefile", tmp_path)
    for name in (*KEPT, *BUILT.values(), "tests/x", "benchmarks/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    done = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert files(tmp_path) == {"Makefile", *KEPT, "tests/x", "benchmarks/x"}
    assert "results/ stays" in done.stdout
    shutil.rmtree(tmp_path / "results/demo")
    done = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "stays" not in done.stdout
