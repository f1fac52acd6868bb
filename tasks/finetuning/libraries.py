"""Check that the optional libraries of fine-tuning are installed."""

import logging
import os
from importlib.util import find_spec

from tasks.core.errors import ConfigurationError

NEEDED = ("torch", "transformers", "peft", "accelerate")


def require_libraries() -> None:
    """Check that the libraries are installed, and silence their progress bars and logs.

    Raises:
        ConfigurationError: one is missing; the message has the command that installs it.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f'Fine-tuning needs {", ".join(missing)}. Install them: pip install "crosscheck-sql[finetune]"'
        )
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for name in ("transformers", "peft", "accelerate"):
        logging.getLogger(name).setLevel(logging.ERROR)
