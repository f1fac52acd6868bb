"""Statistics that DAC and SEA-SQL report of their own stages."""
