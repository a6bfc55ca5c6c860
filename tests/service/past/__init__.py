"""Tests of the past."""
