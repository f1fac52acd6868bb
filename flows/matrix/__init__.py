"""Many evaluations: sweeps, repeats and nightly runs."""
