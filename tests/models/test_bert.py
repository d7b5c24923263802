"""Does BERT compute what eager computes?"""

from __future__ import annotations

from tests.models.suite import gradient_test, value_test

test_values = value_test("bert")
test_gradients = gradient_test("bert")
