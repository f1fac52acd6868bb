"""The files that a benchmark's settings name: whether they are there, of which revision, and where to get them."""

from collections.abc import Iterator
from pathlib import Path

from tasks.benchmarks.layouts import SearchPaths, layout_of
from tasks.core.errors import DataError
from tasks.core.files import file_digest, shown_files
from tasks.settings.benchmark import BenchmarkSettings


def check_files(settings: BenchmarkSettings, *, data: Path, home: Path, conf: Path) -> None:
    """Check that a benchmark's files are there, without reading them."""
    demand_files(settings, layout_of(settings.layout).folder(settings, SearchPaths(data, home, conf, None)))


def demand_files(settings: BenchmarkSettings, folder: Path) -> tuple[Path, ...]:
    """Return the question files, after checking that every needed file exists."""
    files, absent = _question_files(settings, folder)
    # a server describes its databases itself
    tables = [folder / settings.tables] if settings.tables and not settings.url else []
    folders = [] if settings.url else [folder / name for name in settings.database_folders]
    absent += [path.name for path in (*tables, *folders) if not path.exists()]
    if folder.is_dir() and not absent:
        return files
    fault = f"{folder} lacks {', '.join(absent)}" if folder.is_dir() else f"there is no folder {folder}"
    expected = (*settings.question_files, settings.tables, *settings.database_folders)
    names = ", ".join(name for name in expected if name)
    hint = ""
    if absent == [settings.tables]:  # nothing else is absent, so the benchmark may have no tables file
        hint = f' A benchmark without {settings.tables} has the line tables: "" in its YAML file.'
    raise DataError(f"{settings.name}: {fault}. Looked there for {names}.{hint} {where_from(settings)}")


def demand_questions(settings: BenchmarkSettings, folder: Path) -> tuple[Path, ...]:
    """Return the question files, after checking that they exist; the databases may be missing."""
    files, absent = _question_files(settings, folder)
    if absent:
        raise DataError(
            f"{settings.name}: {folder} lacks {', '.join(absent)}, the answer key. {where_from(settings)}"
        )
    return files


def _question_files(settings: BenchmarkSettings, folder: Path) -> tuple[tuple[Path, ...], list[str]]:
    """Return the question files, each once, and the names or patterns in the settings for which there is no file."""
    files: list[Path] = []
    absent = []
    for name in settings.question_files:
        paths = shown_files(folder, name) if "*" in name else [folder / name]
        if not paths or not all(path.exists() for path in paths):
            absent.append(name)
        files += [path for path in paths if path not in files]
    return tuple(files), absent


def where_from(settings: BenchmarkSettings) -> str:
    """Return sentences on where to get the benchmark's files, and how to tell Crosscheck where they are."""
    licence = f"Licence: {settings.licence}." if settings.licence else ""
    details = " ".join(part for part in (settings.download, licence) if part)
    source = f"Get them from {settings.source}" if settings.source else ""
    if source and details:
        beginning = f"{source}: {details} Then say"
    elif source:
        beginning = f"{source}, and say"
    else:
        beginning = f"{details} Say".lstrip()
    if Path(settings.folder).is_absolute():
        return f"{beginning} where they are with the benchmark's key `folder`."
    return (
        f"{beginning} where they are with --data FOLDER or CROSSCHECK_DATA: "
        f'the folder that holds "{settings.folder}".'
    )


def notes_on_revision(settings: BenchmarkSettings, folder: Path) -> Iterator[str]:
    """Yield a note for each file that differs from the stated revision."""
    for name, expected in settings.sha256.items():
        path = folder / name
        if path.is_file() and file_digest(path) != expected:
            yield (
                f"{path} is not the file of {settings.name}'s revision {settings.revision} (its sha256 differs): "
                "figures are not comparable with those of that revision."
            )


def notes_on_descriptions(settings: BenchmarkSettings, folder: Path) -> Iterator[str]:
    """Yield a note if the generated column descriptions are missing."""
    file = settings.column_descriptions
    if file and not (folder / file).is_file():
        yield (
            f"{file} is not in {folder}: columns are described by the benchmark's own files alone, "
            "so prompts differ from those made with it."
        )
