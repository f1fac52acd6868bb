"""Where the servers of `crosscheck up` answer."""

from dataclasses import dataclass

LOCALHOST = "127.0.0.1"


@dataclass(frozen=True)
class Addresses:
    """Where the servers answer, on this machine only."""

    prefect_port: int
    mlflow_port: int

    @property
    def prefect(self) -> str:
        """Prefect's UI."""
        return f"http://{LOCALHOST}:{self.prefect_port}"

    @property
    def prefect_api(self) -> str:
        """Prefect's API."""
        return f"{self.prefect}/api"

    @property
    def mlflow(self) -> str:
        """MLflow's UI and API."""
        return f"http://{LOCALHOST}:{self.mlflow_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What makes an evaluation record at these servers."""
        return {"PREFECT_API_URL": self.prefect_api, "MLFLOW_TRACKING_URI": self.mlflow}
