"""The built-in metrics: a module declares and computes each."""
