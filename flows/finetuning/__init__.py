"""The `finetune` command: training pairs, training and evaluation of SEA-SQL's eliminator."""
