"""Recomputing a results folder: every judged record, verdict and point again from raw bytes, compared with what the folder says.

Levels (design section 11): this is L2 and L3 over a results folder; L0 and L1 need a pack, which `publish` does not make yet.
It does not prove that the run was honest, only that the numbers follow from the files.
"""
