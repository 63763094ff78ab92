"""Measured, tuned and deployed models on Jetson-class boards, in one command."""

__version__ = "0.1.0"
