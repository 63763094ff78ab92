"""Writes docs/faults.md: ``python -m tests.matrix``."""

from tests.matrix.page import PATH, page

PATH.write_text(page(), "utf-8")
