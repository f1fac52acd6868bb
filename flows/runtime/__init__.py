"""The process around a flow: progress, stop signals, budget, logs, running servers."""
