"""Where MLflow shows a nightly run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from flows.runtime.running_servers import shown_store
from tasks.settings.home import Home
from tasks.tracking.mlflow.store import ui_url
from tasks.tracking.night.night import Night
from tasks.tracking.warehouse.runs import Warehouse


@dataclass(frozen=True)
class NightPages:
    """Addresses of pages of MLflow."""

    served: bool = False  # whether a server is known; if not, the addresses hold once one is started
    nights: tuple[str, ...] = ()  # the view of all nightly runs, one per benchmark of the night
    runs: Mapping[str, str] = field(default_factory=dict)  # the run of each evaluation, by its name


def night_pages(night: Night, home: Home) -> NightPages:
    """Return the pages of a nightly run; of an evaluation that MLflow does not have, none."""
    store, warehouse = shown_store(home), Warehouse(home.warehouse)
    views, runs = [], {}
    for entry in night.entries:
        logged = record.mlflow if entry.run_id and (record := warehouse.record_of(entry.run_id)) else None
        if logged and logged.experiment_id:
            views.append(ui_url(store, logged.experiment_id, view="nights"))
            runs[entry.name] = ui_url(store, logged.experiment_id, logged.run_id)
    return NightPages(store.served, tuple(dict.fromkeys(views)), runs)
