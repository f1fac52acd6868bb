"""Nightly runs: evaluations, their baselines and verdicts; as JSON, Markdown and an HTML page."""
