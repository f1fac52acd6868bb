r"""The demo benchmark that ships with the project, built in BIRD's layout on first use.

One database is a folder `conf/benchmarks/demo/<database>/`: `schema.sql`, `rows/<table>.csv`, `questions.yaml` and
`descriptions/<table>.csv`. In the rows, `\N` is NULL and an empty field is empty text.

Both splits ask about the same databases, and more than half of the `dev` questions have the gold SQL of a `train`
question except for its literals: demonstrations help more here than on BIRD or Spider.
"""

from tasks.benchmarks.demo.build_once import build_demo, demo_stamp

__all__ = ["build_demo", "demo_stamp"]
