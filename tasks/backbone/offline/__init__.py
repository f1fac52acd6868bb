"""The offline backbone: a small deterministic text-to-SQL system that reads nothing but the messages.

It is the floor that every real model must beat. Reading a prompt, it links question words to the schema it is
shown, reads the question clause by clause into a query, and answers in the format asked for.
"""

from tasks.backbone.offline.model import OfflineBackbone

__all__ = ["OfflineBackbone"]
