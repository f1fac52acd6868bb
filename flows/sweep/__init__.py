"""The `sweep` command: backbones x pipelines x values of settings."""
