"""Hooks of the documentation site (mkdocs.yml).

The site has the pages of docs/, the pages that stand elsewhere in the repository, and a reference of the Python
interface from its docstrings. Links are written for the repository and rewritten here.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "deployments/README.md": "operating.md",
    **{
        f"flows/cli/topics/{name}.md": f"help-{name}.md"
        for name in ("causes", "ci", "exit-codes", "json", "workers")
    },
}
"""Pages outside of docs/, with their places on the site."""
REFERENCE = """# Reference of the Python interface

::: flows.api.interface
    options: {show_root_heading: false, show_root_toc_entry: false}
"""

_LINK = re.compile(r"(\[[^\]\[]*\])\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source, target in ELSEWHERE.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    for image in sorted((ROOT / "deployments" / "images").iterdir()):
        files.append(File.generated(config, f"images/{image.name}", abs_src_path=str(image)))
    files.append(File.generated(config, "reference.md", content=REFERENCE))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page, except in its code blocks."""
    places = {target: source for source, target in ELSEWHERE.items()}
    source = places.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    parts = _FENCE.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _link(link, source, config.repo_url), part) for part in parts[::2]]
    return "".join(parts)


def _link(link: re.Match[str], source: str, repository: str | None) -> str:
    """Return a link of the site: to a page, else to the file in the repository, else only the text of the link."""
    text, target = link.groups()
    if target.startswith(("http:", "https:", "#")):
        return link[0]
    path, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if path in ELSEWHERE or path.startswith(("docs/", "deployments/images/")):
        place = ELSEWHERE.get(path) or path.removeprefix("docs/").removeprefix("deployments/")
        return f"{text}({place}{'#' if anchor else ''}{anchor})"
    if repository:
        return f"{text}({repository.rstrip('/')}/blob/main/{path})"
    return text[1:-1]
