"""Thresholds, intervals, paired tests, series, sequential tests and power: pure numbers in, numbers out.

Conventions everywhere: PASS iff correct >= k, tests are one-sided, and a *drop* is the bad direction.
A float stands for the decimal it prints as (0.9 is 9/10): `exact` says why.
"""
