"""The `leaderboard` command."""
