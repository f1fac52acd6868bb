"""Records of runs and what is made of them: warehouse, MLflow, comparisons, nights, retention."""
