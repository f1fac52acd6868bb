"""The offline backbone: a small deterministic reader of prompts, the floor that every model must beat."""

from tasks.backbone.offline.model import OfflineBackbone

__all__ = ["OfflineBackbone"]
