"""Everything a flow calls: the stages, and below them scoring, retrieval, benchmarks, backbones, databases."""
