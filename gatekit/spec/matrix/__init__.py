"""Matrices: which specs a name such as `small` stands for, and why others are not among them."""
