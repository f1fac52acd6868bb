"""Schemas of the databases that training questions are about, whether or not their files are at hand."""

from collections.abc import Iterable

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.ddl import schema_from_ddl
from tasks.benchmarks.schemas import read_ddl
from tasks.database.schema import Schema


def training_schemas(benchmark: Benchmark, names: Iterable[str]) -> dict[str, Schema]:
    """Return the schemas of these databases, as far as the benchmark's files tell of them, without samples.

    From the tables file, else from the "schema" column (DDL) of a Parquet file of training questions. A database
    that neither tells of is absent.

    Args:
        benchmark: whose files are read.
        names: ids of training databases; only these are read.

    Raises:
        DataError: the file of the training questions is not what its name says.
    """
    wanted = dict.fromkeys(names)
    found = {name: benchmark.schemas[name] for name in wanted if name in benchmark.schemas}
    train = benchmark.train_file
    if len(found) < len(wanted) and train and train.suffix.lower() == ".parquet" and train.is_file():
        ddl = read_ddl(train)
        found |= {
            name: schema_from_ddl(name, ddl[name]) for name in wanted if name not in found and name in ddl
        }
    return {name: schema for name, schema in found.items() if schema.tables}
