"""Thresholds, intervals and power. Pure functions over numbers (numpy and scipy.special)."""
