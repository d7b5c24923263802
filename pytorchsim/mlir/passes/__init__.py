"""The passes of `pipeline.py`, one file each, named by a verb."""
