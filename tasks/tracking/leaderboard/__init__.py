"""The latest ranked run of each backbone and pipeline, as records and as an HTML page."""
