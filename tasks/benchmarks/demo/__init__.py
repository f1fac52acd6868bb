"""The demo benchmark that ships with the project, built in BIRD's layout on first use.

One database is three files under `conf/benchmarks/demo/<database>/` (`schema.sql`, `questions.yaml`,
`descriptions/*.csv`) and one module here, `<database>.py`, whose `rows` makes the seeded content.
"""

from tasks.benchmarks.demo.builder import build_demo, demo_stamp

__all__ = ["build_demo", "demo_stamp"]
