"""The offline backbone: a small deterministic text-to-SQL system that reads messages and the reply's schema only.

It is a baseline that every real model must beat. Reading a prompt, it links question words to the schema it is
shown, reads the question clause by clause into a query, and answers in the requested format.
"""

from tasks.backbone.offline.model import OfflineBackbone

__all__ = ["OfflineBackbone"]
