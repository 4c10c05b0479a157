"""Imports OpenEvolve checkpoints as runs, and exports runs in OpenEvolve's file format."""
