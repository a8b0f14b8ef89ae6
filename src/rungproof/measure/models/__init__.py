"""Environments, checkpoints and tokens that servers need, each made from a lock."""
