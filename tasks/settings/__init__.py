"""What can be configured: strict models, and how their YAML files are found and read."""
