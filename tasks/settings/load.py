"""Loading of `conf/` into settings models, with `--set` overrides and errors that suggest corrections."""

import datetime
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ValidationError

from tasks.core.errors import ConfigurationError, did_you_mean, first_problem
from tasks.core.files import read_file
from tasks.core.registry import absolute, is_in_file
from tasks.core.wording import map_texts, sentence
from tasks.settings.backbone import BackboneSettings, Prices, Rates
from tasks.settings.base import Settings
from tasks.settings.benchmark import BenchmarkSettings, key_in_folder
from tasks.settings.evaluation import TrackingSettings
from tasks.settings.home import find_conf
from tasks.settings.kinds import BACKBONE, BENCHMARK, PIPELINE, Kind
from tasks.settings.pipeline import PipelineSettings

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

MAX_VALUES = 10_000
"""Most values of a YAML text; a value is counted again for each alias of it."""


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the keys and values of a YAML file."""
    try:
        content = load_yaml(read_file(path).decode())
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is not YAML: {yaml_problem(error)}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as YAML: {first_problem(error)}") from None
    if content is None:
        raise ConfigurationError(f"{path} is empty. Write keys and values into it.")
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        raise ConfigurationError(f"{path} must hold keys and values, not {kind}.")
    return content


def yaml_problem(error: yaml.YAMLError) -> str:
    """Return what is wrong and where, without PyYAML's name for a text that it did not read from a file."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).replace(' in "<unicode string>",', " at").split())


def load_yaml(text: str) -> Any:
    """Return the value of a YAML text.

    YAMLError if it is none, a key occurs twice, an alias refers to a value that contains it, or values are too many.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _count_values(node, {})  # which refuses what `safe_load` takes
        return yaml.safe_load(text)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None


def _count_values(node: yaml.Node, counted: dict[int, int]) -> int:
    """Return the number of values of a node; `counted` has it by the id of nodes, 0 for one that is being counted."""
    count = counted.get(id(node))
    if count == 0:
        raise yaml.MarkedYAMLError(
            problem="an alias refers to a value that contains it", problem_mark=node.start_mark
        )
    if count is not None:
        return count
    counted[id(node)] = 0
    parts: list[Any] = node.value if isinstance(node, yaml.CollectionNode) else []
    if isinstance(node, yaml.MappingNode):
        _refuse_repeated(key for key, _ in node.value)
        parts = [part for pair in node.value for part in pair]
    count = counted[id(node)] = 1 + sum(_count_values(part, counted) for part in parts)
    if count > MAX_VALUES:
        raise yaml.MarkedYAMLError(problem=f"more than {MAX_VALUES:,} values", problem_mark=node.start_mark)
    return count


def _refuse_repeated(keys: Iterable[yaml.Node]) -> None:
    """Refuse a key that occurs twice in a mapping: PyYAML uses its last value, and says nothing."""
    seen = set()
    for key in keys:
        name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
        if name in seen:
            raise yaml.MarkedYAMLError(
                problem=f'the key "{key.value}" occurs twice', problem_mark=key.start_mark
            )
        if name is not None and key.tag != "tag:yaml.org,2002:merge":
            seen.add(name)


PACKAGE = "genai-prices"
_OWN_ADDRESS = dict.fromkeys(("openai", "openai-responses"), "https://api.openai.com/v1")
"""Endpoints of kinds whose settings name no `base_url`."""
_TIERS = {"flex": {"service_tier": "flex"}, "batch": {"processing": "batch"}}
"""Names of service tiers in the price list."""


def with_listed_prices(settings: BackboneSettings) -> BackboneSettings:
    """Return settings with the prices of the list for their provider and model where they have none of their own.

    Their own prices are not changed, but tiers that are missing in them are added if the list's standard prices are the
    same. A provider is found by the endpoint's address, never by the model's name alone: another provider may charge
    another price. Prices that depend on the time of day are not used.
    """
    prices = settings.prices
    if prices is not None and prices.model not in (None, settings.model):
        prices = None  # they are those of another model
    if prices is not None and prices.flex and prices.batch:
        return settings
    address = settings.base_url or _OWN_ADDRESS.get(settings.kind, "")
    host = urlsplit(address).hostname or ""
    has_domain = "." in host.strip(
        "0123456789.:"
    )  # localhost or an IP address is free, or a server of one's own
    listed = _listed(settings.model, address) if has_domain else None
    if listed is None:
        return settings
    if prices is None:
        return settings.model_copy(update={"prices": listed})
    names = ("input", "cached_input", "cache_write", "output")
    if any(getattr(prices, name) not in (None, getattr(listed, name)) for name in names):
        return settings
    missing = [name for name in _TIERS if not getattr(prices, name)]
    added = {name: rates for name in missing if (rates := getattr(listed, name))}
    if added:
        source = "; ".join(filter(None, (prices.source, f"{', '.join(added)}: {listed.source}")))
        prices = prices.model_copy(update={**added, "source": source})
    return settings.model_copy(update={"prices": prices})


def _listed(model: str, address: str) -> Prices | None:
    """Return today's prices of a model in the installed list; None where it has none, or is not installed."""
    try:
        from genai_prices.data_snapshot import get_snapshot

        provider, entry = get_snapshot().find_provider_model(model, None, None, address)
    except (ImportError, LookupError):
        return None
    source = f"{PACKAGE} {importlib.metadata.version(PACKAGE)} ({provider.id}: {entry.id})"
    return _prices(model, entry, source)


def _prices(model: str, entry: "ModelInfo", source: str) -> Prices | None:
    """Return today's prices of a model of the list; None where they depend on the time of day, or lack one."""
    now = datetime.datetime.now(datetime.UTC)
    conditions = [price.constraint for price in entry.prices] if isinstance(entry.prices, list) else []
    starts: list[Any] = [getattr(rule, "start_date", None) for rule in conditions if rule is not None]
    if None in starts:
        return None  # a rule without a date is about the time of day
    standard = _rates(entry.get_prices(now))
    if standard is None:
        return None
    next_start = min((start for start in starts if start > now.date()), default=None)
    return Prices(
        **dict(standard),
        flex=_tier(entry, "flex", now),
        batch=_tier(entry, "batch", now),
        model=model,
        most_input=_most_input(entry.get_prices(now)),
        valid_from=max((start for start in starts if start <= now.date()), default=None),
        valid_until=next_start - datetime.timedelta(days=1) if next_start else None,
        source=source,
    )


def _tier(entry: "ModelInfo", name: str, now: datetime.datetime) -> Rates | None:
    """Return the prices of a tier; None where the list has none for it."""
    context = _TIERS[name]
    has_own_prices = any(variant.when == context for variant in entry.price_variants or ())
    return _rates(entry.get_prices(now, context)) if has_own_prices else None


def _rates(listed: Any) -> Rates | None:
    """Return the prices of a tier as settings have them; None where input or output has none."""
    input_usd, output_usd = _usd(listed, "input_mtok"), _usd(listed, "output_mtok")
    if input_usd is None or output_usd is None:
        return None
    cached, cache_write = _usd(listed, "cache_read_mtok"), _usd(listed, "cache_write_mtok")
    return Rates(input=input_usd, cached_input=cached, cache_write=cache_write, output=output_usd)


def _usd(listed: Any, name: str) -> float | None:
    value = getattr(listed, name, None)
    value = getattr(value, "base", value)
    return float(value) if isinstance(value, Decimal | int | float) else None


def _most_input(listed: Any) -> int | None:
    """Return the input tokens up to which the base prices hold: where the first higher price starts."""
    starts = [tier.start for value in vars(listed).values() for tier in getattr(value, "tiers", ())]
    return min(starts, default=None)


T = TypeVar("T", bound=BaseModel)

KINDS: Mapping[str, Kind] = {"benchmark": BENCHMARK, "backbone": BACKBONE, "pipeline": PIPELINE}
"""Kinds of settings that have files."""
TRACKING = "tracking"
"""The kind of settings that has no file, only `--set tracking.*`."""


def available(conf: Path, kind: str) -> dict[str, Path]:
    """Return the files of one kind ("benchmark", "backbone", "pipeline") by name, in alphabetical order."""
    return {path.stem: path for path in sorted((conf / f"{kind}s").glob("*.yaml"))}


def offered(kind: str) -> tuple[str, ...]:
    """Return the names of what installed packages offer and needs no file of settings: pipelines and backbones."""
    return KINDS[kind].registry.offered() if KINDS[kind].key == "kind" else ()


def known_names(kind: str) -> list[str]:
    """Return the names that `load_settings` knows of one kind, in alphabetical order."""
    return sorted({*available(find_conf(), kind), *offered(kind)})


def load_benchmark_settings(conf: Path, name: str, overrides: Iterable[str] = ()) -> BenchmarkSettings:
    """Read one benchmark's settings."""
    return load_settings(conf, "benchmark", name, overrides)  # type: ignore[no-any-return]


def load_backbone_settings(conf: Path, name: str, overrides: Iterable[str] = ()) -> BackboneSettings:
    """Read one backbone's settings, with listed prices."""
    return with_listed_prices(load_settings(conf, "backbone", name, overrides))


def load_pipeline_settings(conf: Path, name: str, overrides: Iterable[str] = ()) -> PipelineSettings:
    """Read one pipeline's settings."""
    return load_settings(conf, "pipeline", name, overrides)  # type: ignore[no-any-return]


def load_tracking_settings(overrides: Iterable[str] = ()) -> TrackingSettings:
    """Return the tracking settings."""
    return _validated(TRACKING, Path("--set"), {}, overrides)  # type: ignore[no-any-return]


def load_settings(conf: Path, kind: str, name: str, overrides: Iterable[str] = ()) -> Any:
    """Read `conf/<kind>s/<name>.yaml`, apply the overrides of its kind, and validate.

    `name` may also be the path of a YAML file elsewhere, `path/to/file.py:attribute`, or what an installed package
    offers under that name. Overrides of other kinds are ignored.
    """
    model_kind = KINDS[kind]
    if is_in_file(name):
        content = {model_kind.key: absolute(name, Path.cwd()), "name": name.rpartition(":")[2]}
        return _validated(kind, Path(name), content, overrides)
    if name in offered(kind):
        if name not in available(conf, kind):
            return _validated(kind, Path(name), {model_kind.key: name, "name": name}, overrides)
        model_kind.registry.warn_hidden(name)
    path = _file_of(conf, kind, name)
    content = read_yaml(path)
    if content.get("name") is None:
        content["name"] = path.stem
    return _validated(kind, path, content, overrides)


def located_name(name: str, folder: Path) -> str:
    """Return a name with an absolute path where it names a file in a folder; a name of `known_names` as it is."""
    if name.endswith((".yaml", ".yml")):
        return str((folder / Path(name).expanduser()).resolve())
    return absolute(name, folder)


def located_override(text: str, folder: Path) -> str:
    """Return an override with absolute paths where it names files in a folder; any other as it is."""
    kind, keys, value = parse_override(text)
    located = _located(kind, ".".join(keys), value, folder)
    return text if located == value else f"{kind}.{'.'.join(keys)}={json.dumps(located, default=str)}"


def parse_override(text: str) -> tuple[str, list[str], Any]:
    """Split `pipeline.selection.shortcut=true` into kind, keys and the value as YAML reads it."""
    name, equals, value = text.partition("=")
    kind, *keys = name.strip().split(".")
    if not equals or not keys or not all(keys):
        raise ConfigurationError(
            f'--set {text}: write kind.key=value, for example "--set pipeline.demonstrations.k=5".'
        )
    valid = (*KINDS, TRACKING)
    if kind not in valid:
        raise ConfigurationError(f'--set {text}: no key starts with "{kind}". {did_you_mean(kind, valid)}')
    try:
        return kind, keys, load_yaml(value)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"--set {text}: the value is not YAML: {yaml_problem(error)}.") from None


def _validated(kind: str, path: Path, content: dict[str, Any], overrides: Iterable[str]) -> Any:
    """Apply the overrides of a kind to the content of its file, and validate it."""
    overridden: dict[str, str] = {}
    for override in overrides:
        target, keys, value = parse_override(override)
        if target == kind:
            key = ".".join(keys)
            _put(content, keys, _located(kind, key, value, Path.cwd()), override)
            overridden[key] = f"--set {override}"
    folder = path.resolve().parent
    content = {key: _located(kind, key, value, folder) for key, value in content.items()}
    model = TrackingSettings if kind == TRACKING else _model_of(KINDS[kind], path, content, overridden)
    return _validate(model, content, path, overridden)


def read_settings(model: type[T], path: Path) -> T:
    """Read a YAML file as settings of a model."""
    return _validate(model, read_yaml(path), path, {})


def _validate(model: type[T], content: Mapping[str, Any], path: Path, overridden: Mapping[str, str]) -> T:
    """Validate settings; an error names the file, or the override that `overridden` has for a key."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise ConfigurationError(_explain(error, model, path, overridden)) from None


def _located(kind: str, key: str, value: Any, folder: Path) -> Any:
    """Return a setting that names files or a folder of the user with absolute paths; any other as it is.

    These are `file.py:attribute`, the answer keys of a benchmark, and its folder if it begins with `./`. A path in a
    YAML file is relative to that file, one in `--set` to the working directory.
    """
    if (kind, key) == ("benchmark", "answer_keys"):
        items = [value] if isinstance(value, str) else value
        is_list_of_names = isinstance(items, list) and all(isinstance(item, str) for item in items)
        return [key_in_folder(item, folder) for item in items] if is_list_of_names else value
    if (kind, key) == ("benchmark", "folder") and isinstance(value, str) and value.startswith("./"):
        return str((folder / Path(value).expanduser()).resolve())
    return map_texts(value, lambda text: absolute(text, folder))


def _model_of(
    kind: Kind, path: Path, content: Mapping[str, Any], overridden: Mapping[str, str]
) -> type[Settings]:
    """Return the model that validates the content: that of the implementation which the content names."""
    name = content.get(kind.key)
    source = overridden.get(kind.key, f"{path}, key {kind.key}")
    if isinstance(name, str) and not kind.registry.has(name):
        raise ConfigurationError(
            f'{source}: there is no {kind.registry.kind} "{name}". {did_you_mean(name, kind.registry.names())} '
            "One of your own is named path/to/file.py:attribute."
        )
    if name is None and kind.base.model_fields[kind.key].is_required():
        raise ConfigurationError(
            f"{source}: which {kind.registry.kind} this is about is missing. "
            f"Valid: {', '.join(kind.registry.names())}."
        )
    try:
        return kind.model(content)
    except ConfigurationError as error:
        raise ConfigurationError(f"{source}: {error}") from error


def _file_of(conf: Path, kind: str, name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        path = Path(name).expanduser()
        if path.is_file():
            return path
        raise ConfigurationError(f"There is no {kind} file {path}.")
    files = available(conf, kind)
    if name in files:
        return files[name]
    if name.endswith(".py"):
        fitting = [f"{name}:{attribute}" for attribute in KINDS[kind].in_file(Path(name).expanduser())]
        advice = f"Name the {kind} in it: {' or '.join(fitting)}." if fitting else f"It defines no {kind}."
        raise ConfigurationError(f"{name} is a Python file. {advice}")
    raise ConfigurationError(
        f'There is no {kind} "{name}" in {conf / f"{kind}s"}. {did_you_mean(name, files)} '
        f"`crosscheck list {kind}s` shows them all; a path ending in .yaml works too."
    )


def _put(content: dict[str, Any], keys: list[str], value: Any, override: str) -> None:
    """Set a value below nested keys, which are made where they are missing."""
    *parents, last = keys
    for key in parents:
        inner = content.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigurationError(f'--set {override}: "{key}" is a single value, it has no keys below it.')
        content = inner
    content[last] = value


def _explain(error: ValidationError, root: type[BaseModel], path: Path, overridden: Mapping[str, str]) -> str:
    """Return a line for each problem of settings: where the value is, what is wrong, and what is valid."""
    lines = []
    for problem in error.errors(include_url=False):
        keys = [str(part) for part in problem["loc"]]
        name = ".".join(keys)
        # overrides of this key, of a key above it, or of one below it
        related = [text for key, text in overridden.items() if _within(key, name) or _within(name, key)]
        override = related[0] if related else None
        source = override or f"{path}, key {name or '(top)'}"
        if problem["type"] == "extra_forbidden":
            valid = _fields_at(root, keys[:-1])
            lines.append(f'{source}: there is no key "{keys[-1]}". {did_you_mean(keys[-1], valid)}')
        elif problem["type"] == "missing":
            lines.append(f'{override or path}: the key "{name}" is missing.')
        elif problem["type"] == "string_pattern_mismatch" and {"api_key_env", "headers_env"} & {*keys}:
            # The value may be the key itself, so it is not repeated here.
            lines.append(
                f"{path} or --set, key {name}: this is no name of an environment variable. "
                "Put the value into a variable, and that variable's name here."
            )
        elif problem["type"] == "value_error":  # without keys, it is of a validator of several settings
            location = source if keys else f"{path} or --set"
            lines.append(f"{location}: {sentence(str(problem['ctx']['error']))}")
        elif fields := _fields_at(root, keys):
            lines.append(
                f"{source}: {problem['input']!r} is not keys and values. Its keys: {', '.join(fields)}."
            )
        else:
            # YAML reads a text without quotes such as 3 or yes as a number or boolean
            lacks_quotes = problem["type"] == "string_type" and not isinstance(problem["input"], list | dict)
            advice = " Put it in quotes." if lacks_quotes else ""
            lines.append(f"{source}: {problem['msg']}, not {problem['input']!r}.{advice}")
    return "\n".join(lines)


def _within(inner: str, outer: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")


def _fields_at(model: type[BaseModel] | None, keys: list[str]) -> list[str]:
    """Return the keys that a place in the settings has, [] where it holds a plain value."""
    for key in keys:
        annotation = model.model_fields[key].annotation if model and key in model.model_fields else None
        candidates = [annotation, *get_args(annotation)]
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), None)
    return list(model.model_fields) if model else []
