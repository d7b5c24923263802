"""Does ResNet-18 compute what eager computes?"""

from __future__ import annotations

from tests.models.suite import gradient_test, value_test

test_values = value_test("resnet")
test_gradients = gradient_test("resnet")
