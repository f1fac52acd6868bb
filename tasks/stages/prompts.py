"""Renders `conf/prompts/*.jinja` into messages, and digests the text that a rendering depends on.

A template has a block `system` and a block `user`, and further blocks for later turns of a conversation. All of
them are made of the macros in `_sections.jinja`, which they see as `section`.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    DictLoader,
    Environment,
    StrictUndefined,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    meta,
    nodes,
)
from jinja2.defaults import DEFAULT_NAMESPACE

from tasks.backbone.protocol import Message, Role
from tasks.core.errors import ConfigurationError, did_you_mean, first_problem
from tasks.core.files import read_file
from tasks.settings.home import SHIPPED_CONF, find_conf

SECTIONS = "_sections"


def render(name: str, /, block: str = "user", **variables: Any) -> str:
    """Return one block of the template `name` as text."""
    folder = _folder()
    try:
        template = _environment(folder).get_template(f"{name}.jinja")
        if block not in template.blocks:
            raise ConfigurationError(
                f'The prompt {folder / name}.jinja has no block "{block}". {did_you_mean(block, template.blocks)}'
            )
        text = "".join(template.blocks[block](template.new_context(variables)))
    except TemplateError as error:
        raise ConfigurationError(_explain(folder, name, error)) from None
    # What a template itself may do wrong:
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise ConfigurationError(f"The prompt {folder / name}.jinja cannot be rendered: {error}.") from error
    return text.strip() + "\n"


def messages(name: str, /, **variables: Any) -> tuple[Message, ...]:
    """Return the opening messages of the template `name`: its system and its user block."""
    roles: tuple[Role, ...] = ("system", "user")
    return tuple(Message(role, render(name, role, **variables)) for role in roles)


def section(name: str, *arguments: Any) -> str:
    """Return the text of a macro of `_sections.jinja`."""
    return str(getattr(_environment(_folder()).globals["section"], name)(*arguments))


def check() -> None:
    """Read all templates from their files again, so that an invalid one is found before the first call.

    A template may use what the shipped one of its name uses: a stage gives it nothing else.
    """
    for cached in (_sources, _environment, _digest):
        cached.cache_clear()
    folder = _folder()
    for file in _sources(folder):
        name = file.removesuffix(".jinja")
        try:
            _environment(folder).get_template(file)
            _check_names(folder, name)
        except TemplateError as error:
            raise ConfigurationError(_explain(folder, name, error)) from None


def digest(*names: str) -> str:
    """Return the sha256 over templates and the sections they are made of: part of the cache key of a stage."""
    return _digest(_folder(), names)


def digests() -> dict[str, str]:
    """Return the beginning of the sha256 of every template by its name: `prompts/forward_link.jinja`."""
    return {
        f"prompts/{name}": hashlib.sha256(source.encode()).hexdigest()[:12]
        for name, source in _sources(_folder()).items()
    }


def _folder() -> Path:
    return _folder_of(os.environ.get("CROSSCHECK_CONF"))


@cache
def _folder_of(conf: str | None) -> Path:
    """Return the folder for a value of CROSSCHECK_CONF; finding it takes longer than rendering a prompt."""
    return find_conf() / "prompts"


@cache
def _sources(folder: Path) -> Mapping[str, str]:
    """Return the text of every template by its file's name, from which come both prompts and their digests.

    Until `check` reads them again, a template that is edited while a run works changes neither.
    """
    return {path.name: _source(path) for path in sorted(folder.glob("*.jinja"))}


@cache
def _environment(folder: Path) -> Environment:
    # Prompts are plain text for a model, not HTML: escaping would corrupt the SQL in them.
    loader = DictLoader(_sources(folder))
    environment = Environment(loader=loader, undefined=StrictUndefined, autoescape=False)  # noqa: S701
    environment.globals["section"] = environment.get_template(f"{SECTIONS}.jinja").module
    return environment


@cache
def _digest(folder: Path, names: tuple[str, ...]) -> str:
    sources = {name: _text(folder, name) for name in (SECTIONS, *names)}
    return hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()


def _check_names(folder: Path, name: str) -> None:
    """Check that a template uses sections, blocks and variables that there are, and has the shipped one's blocks."""
    environment = _environment(folder)
    source = _text(folder, name)
    tree = environment.parse(source)
    sections = vars(environment.globals["section"])
    for use in tree.find_all(nodes.Getattr):
        if isinstance(use.node, nodes.Name) and use.node.name == "section" and use.attr not in sections:
            macros = [macro for macro in sections if not macro.startswith("_")]
            raise _error(f'there is no section "{use.attr}"', use.attr, macros, use.lineno, name)
    shipped = SHIPPED_CONF / "prompts" / f"{name}.jinja"
    if not shipped.is_file() or (text := shipped.read_text(encoding="utf-8")) == source:
        return
    shipped_tree = environment.parse(text)
    blocks = {block.name for block in tree.find_all(nodes.Block)}
    for block in shipped_tree.find_all(nodes.Block):
        if block.name not in blocks:
            raise _error(f'it has no block "{block.name}"', block.name, blocks, None, name)
    usable = meta.find_undeclared_variables(shipped_tree) | set(environment.globals)
    for variable in sorted(meta.find_undeclared_variables(tree) - usable):
        line = next(use.lineno for use in tree.find_all(nodes.Name) if use.name == variable)
        valid = {use.name for use in shipped_tree.find_all(nodes.Name)} - {*DEFAULT_NAMESPACE}
        raise _error(f'there is no variable "{variable}"', variable, valid, line, name)


def _error(problem: str, wrong: str, valid: Iterable[str], line: int | None, name: str) -> TemplateError:
    message = f"{problem}. {did_you_mean(wrong, valid)}"
    return TemplateError(message) if line is None else TemplateSyntaxError(message, line, f"{name}.jinja")


def _text(folder: Path, name: str) -> str:
    """Return the text of a template; a file that is missing has the message of one that cannot be read."""
    text = _sources(folder).get(f"{name}.jinja")
    return _source(folder / f"{name}.jinja") if text is None else text


def _source(path: Path) -> str:
    try:
        return read_file(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"The prompt {path} cannot be read: {first_problem(error)}.") from None


def _explain(folder: Path, name: str, error: TemplateError) -> str:
    if isinstance(error, TemplateNotFound):
        prompt_names = (path.stem for path in folder.glob("[!_]*.jinja"))
        return f'There is no prompt "{error.name}" in {folder}. {did_you_mean(name, prompt_names)}'
    line = getattr(error, "lineno", None)
    file = f"{getattr(error, 'name', None) or f'{name}.jinja'}{f', line {line}' if line else ''}"
    message = str(error.message or error).rstrip(".")
    return f"The prompt {folder / file} cannot be rendered: {message}{'' if message.endswith('?') else '.'}"
