"""Evaluations: preparation, questions, scores, tracking, re-runs, and the scoring of other systems' answers."""
