r"""The demo benchmark that ships with the project, built in BIRD's layout on first use.

One database is a folder `conf/benchmarks/demo/<database>/`: `schema.sql`, `rows/<table>.csv`, `questions.yaml` and
`descriptions/<table>.csv`. In the rows, `\N` is NULL and an empty field is empty text.
"""

from tasks.benchmarks.demo.builder import build_demo, demo_stamp

__all__ = ["build_demo", "demo_stamp"]
