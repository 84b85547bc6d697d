"""What MkDocs does not do by itself: pages from outside of docs/, generated pages, and links as on GitHub.

The pages of docs/ are read in two places, on the site and in the repository. Their links are those of the repository;
here they become links of the site.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown.blockprocessors import build_block_parser
from markdown.extensions import Extension
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from reference import PAGES, PROJECT

if TYPE_CHECKING:
    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

#: Pages from elsewhere in the project, by their place on the site.
OUTSIDE = {
    "index.md": "README.md",
    "configuration.md": "config/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "benchmarks.md": "benchmarks/README.md",
    "results-folder.md": "results/README.md",
}
_PLACES = {path: place for place, path in OUTSIDE.items()}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


class _ListsAsOnGithub(Extension):
    """Two spaces begin a list in a list, as on GitHub; Python-Markdown wants four."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (its name there)
        md.tab_length = 2
        md.parser = build_block_parser(md)


def on_config(config: MkDocsConfig) -> None:
    """Puts the extension before all others: it makes the parser anew that they change."""
    config.markdown_extensions.insert(0, _ListsAsOnGithub())  # type: ignore[arg-type]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages that are not in docs/, and the files that any page links."""
    for place, path in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(PROJECT / path)))
    for place, page in PAGES.items():
        files.append(File.generated(config, place, content=page()))
    for file in list(files.documentation_pages()):
        for target in _LINK.findall(_without_code(file.content_string)):
            path = _path(target, file.src_uri)
            known = path.startswith("docs/") or path in _PLACES or path in files.src_uris
            if not known and (PROJECT / path).is_file():
                files.append(File.generated(config, path, abs_src_path=str(PROJECT / path)))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turns links of the repository into links of the site, outside of blocks of code."""
    here = page.file.src_uri

    def on_site(match: re.Match[str]) -> str:
        path = _path(match[1], here)
        place = _PLACES.get(path, path.removeprefix("docs/"))
        return posixpath.relpath(place, posixpath.dirname(here) or ".")

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(on_site, part) for part in parts)


def _path(target: str, place: str) -> str:
    """Returns the path in the project that a link of a page leads to."""
    home = OUTSIDE.get(place, f"docs/{place}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(home), target))


def _without_code(markdown: str) -> str:
    return _FENCE.sub("", markdown)
