"""docs/faults.md says what is expected here, which the tests beside this one try."""

from __future__ import annotations

from tests.matrix.page import PATH, page


def test_the_page_is_that_of_these_expectations() -> None:
    assert PATH.read_text("utf-8") == page(), "make it anew: python -m tests.matrix"
