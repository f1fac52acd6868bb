"""Engines that copies are written into, one module each: `tasks.database.loading.target.TARGETS` finds them by name."""
