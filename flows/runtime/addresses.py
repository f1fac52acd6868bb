"""Addresses of the servers of `crosscheck up`."""

from dataclasses import dataclass

LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class Addresses:
    """Addresses of the servers, which accept connections from this machine only."""

    prefect_port: int
    mlflow_port: int

    @property
    def prefect(self) -> str:
        """URL of Prefect's UI."""
        return f"http://{LOCALHOST}:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        """URL of Prefect's API."""
        return f"{self.prefect}/api"

    @property
    def mlflow(self) -> str:
        """URL of MLflow's UI and API."""
        return f"http://{LOCALHOST}:{self.mlflow_port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make an evaluation use these servers."""
        return {"PREFECT_API_URL": self.prefect_api, "MLFLOW_TRACKING_URI": self.mlflow}
