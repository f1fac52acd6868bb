"""What every other folder may import and what imports none of them: errors, records, registries, files, wording."""
