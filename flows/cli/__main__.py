"""`python -m flows.cli`, for where the console script is not installed."""

from flows.cli.program import main

main()
