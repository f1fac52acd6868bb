"""The least that a program does which logs a run to MLflow; it imports nothing else.

    python tests/benchmarks/plain_logging.py TRACKING_URI

It makes an experiment, and a run with one metric.
"""

import sys

from mlflow import MlflowClient


def main() -> None:
    client = MlflowClient(sys.argv[1])
    known = client.get_experiment_by_name("plain")
    experiment = known.experiment_id if known else client.create_experiment("plain")
    run = client.create_run(experiment).info.run_id
    client.log_metric(run, "right", 1.0)
    client.set_terminated(run)


if __name__ == "__main__":
    main()
