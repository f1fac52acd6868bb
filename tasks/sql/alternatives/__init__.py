"""Queries that are equally correct readings of a query: with other ties, other rows of a group, another order."""
