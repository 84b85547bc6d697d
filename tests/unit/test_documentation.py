"""The documentation says what the code says, and becomes a site that needs no network."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from test_lock import normal
from test_settings import keys_of

from alignlens import __version__
from alignlens.attribution.registry import METHODS
from alignlens.cli.main import VERBS
from alignlens.workflow.configuration import config_schema

SITE_PARTS = ("docs", "config", "benchmarks", "results/README.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
SITE_PARTS += ("CITATION.cff", "mkdocs.yml")


@pytest.fixture(scope="module")
def reference(project: Path) -> ModuleType:
    path = project / "docs/site/reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def copy(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of everything that the site is made of."""
    folder = tmp_path_factory.mktemp("site")
    for part in SITE_PARTS:
        source, target = project / part, folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


@pytest.fixture(scope="module")
def site(copy: Path) -> Path:
    done = build(copy)
    assert done.returncode == 0, done.stderr
    return copy / "build" / "site"


def test_generated_tables_are_as_the_code_says(project: Path, reference: ModuleType) -> None:
    pages = {page for page, _ in reference.PARTS.values()}
    texts = {page: (project / page).read_text() for page in pages}
    for page, text in texts.items():
        assert reference.with_parts(page, text) == text, f"{page} is out of date: make reference"
    for name, (page, _) in reference.PARTS.items():
        assert f"<!-- made by docs/site/reference.py: {name} -->" in texts[page]


def test_the_tables_name_everything(project: Path) -> None:
    manual = (project / "config/README.md").read_text()
    for key, rule in keys_of(config_schema()):
        (row,) = re.findall(rf"^\| `{re.escape(key)}` \|.*$", manual, re.MULTILINE)
        assert rule["description"].rstrip(".")[1:20] in row
    methods = (project / "docs/methods.md").read_text()
    for spec in METHODS.values():
        assert f"| `{spec.name}`" in methods
        assert spec.equation in methods
        for key, parameter in spec.parameters.items():
            assert parameter.about, f"{spec.name},{key} has no explanation"
    commands = (project / "docs/commands.md").read_text()
    assert re.findall(r"^\| `alignlens (\S+)` \|", commands, re.MULTILINE) == list(VERBS)


def test_the_site_has_the_help_of_every_command_and_every_setting(site: Path) -> None:
    commands = (site / "reference/commands.html").read_text()
    for verb in VERBS:
        assert f'<h2 id="alignlens-{verb}">' in commands
    for action in ("track-sync", "data-list", "model-import", "server-up"):
        assert f'<h3 id="alignlens-{action}">' in commands
    assert "--recipe FILE" in commands
    settings = (site / "reference/settings.html").read_text()
    for name in ("label_smoothing", "minimum_risk", "scale_encoder_gradient", "strip_accents"):
        assert name in settings


def test_links_of_the_repository_lead_somewhere_on_the_site(site: Path) -> None:
    assert (site / "configuration.html").is_file()
    assert 'href="configuration.html"' in (site / "presets.html").read_text()
    assert 'href="config/models.yaml"' in (site / "models.html").read_text()
    assert (site / "config/models.yaml").is_file()
    assert not list(site.rglob("*.py"))


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe|source)[^>]*src=\"([^\"]*)|<link[^>]*href=\"([^\"]*)", page.read_text()
        )
        assert loaded
        assert not [url for pair in loaded for url in pair if re.match(r"(https?:)?//", url)], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style.name


def test_broken_links_fail(copy: Path, site: Path) -> None:
    broken = ["nowhere.md", "presets.md#no-such-part", "../src/nothing.py", "../config/README.md#no-such-part"]
    page = copy / "docs" / "presets.md"
    before = page.read_text()
    try:
        page.write_text("\n".join([before, *(f"[x]({link})" for link in broken)]))
        done = build(copy)
    finally:
        page.write_text(before)
    assert done.returncode != 0
    warnings = [line for line in done.stderr.splitlines() if "presets.md" in line]
    assert len(warnings) == len(broken), done.stderr


def test_the_version_is_the_same_everywhere(project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text())
    assert "version" in declared["project"]["dynamic"]
    assert declared["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "alignlens.__version__"}
    assert yaml.safe_load((project / "CITATION.cff").read_text())["version"] == __version__
    headings = re.findall(r"^## (.+)$", (project / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [heading for heading in headings if heading != "[Unreleased]"]
    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d", released[0])


def test_the_page_of_dependencies_has_every_dependency(project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    groups = {"dependencies": declared["dependencies"], **declared["optional-dependencies"]}
    names = sorted(normal(re.split(r"[<>=;]", text)[0]) for texts in groups.values() for text in texts)
    page = (project / "docs/dependencies.md").read_text()
    listed = [
        normal(name) for row in re.findall(r"^\| (`.+?) \|", page, re.MULTILINE) for name in re.findall(r"`(.+?)`", row)
    ]
    assert sorted(listed) == names
