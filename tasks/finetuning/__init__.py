"""The eliminator of SEA-SQL: training pairs, LoRA fine-tuning, and what it fixes and breaks."""
