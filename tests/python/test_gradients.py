"""Gradients on NumPy's arrays, against differences of the definition."""

import numpy as np
import oracle
import pytest
from test_numpy import NAMES, arrays, problem

import rapt

random = np.random.default_rng(11)


def difference(function, x, direction, step=1e-5):
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


def check(q, k, v, options):
    """Each gradient in two random directions."""
    out = oracle.attend(q, k, v, **options)[0]
    grad = random.standard_normal(out.shape)
    dq, dk, dv, d = rapt.gradients(q, k, v, grad, **options)
    loss = lambda **given: (oracle.attend(**{**dict(q=q, k=k, v=v), **options, **given})[0] * grad).sum()
    cases = [("q", q, dq), ("k", k, dk), ("v", v, dv)]
    if options.get("bias") is not None:
        cases.append(("bias", options["bias"], d["bias"]))
    for name, x, gradient in cases:
        assert gradient.shape == x.shape
        for _ in range(2):
            direction = random.standard_normal(x.shape)
            expected = difference(lambda y: loss(**{name: y}), x, direction)
            np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    for name, x in (options.get("params") or {}).items():
        if np.isscalar(x):
            continue
        x = np.asarray(x, np.float64)
        direction = random.standard_normal(x.shape)
        expected = difference(lambda y: loss(params={**options["params"], name: y}), x, direction)
        np.testing.assert_allclose((d[name] * direction).sum(), expected, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("score", NAMES)
def test_every_mechanism(score):
    check(*problem(score))


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "entmax15", "sigmoid"])
def test_every_normalizer(normalizer):
    q, k, v = arrays()
    check(q, k, v, dict(normalizer=normalizer, softcap=3.0, bias=random.standard_normal((1, 4, 1, 9))))


@pytest.mark.parametrize("params", [{"sink": random.standard_normal(4)}, None])
def test_masks_and_sinks(params):
    q, k, v = arrays()
    mask = random.random((2, 1, 7, 9)) < 0.7
    check(q, k, v, dict(params=params, mask=mask, causal="bottom_right", bias=random.standard_normal((2, 4, 7, 9))))


def test_gradient_of_lse():
    q, k, v = arrays()
    grad, grad_lse = random.standard_normal((2, 4, 7, 5)), random.standard_normal((2, 4, 7))
    dq = rapt.gradients(q, k, v, grad, grad_lse=grad_lse)[0]
    direction = random.standard_normal(q.shape)

    def loss(x):
        out, _, lse = oracle.attend(x, k, v)
        return (out * grad).sum() + (lse * grad_lse).sum()

    np.testing.assert_allclose((dq * direction).sum(), difference(loss, q, direction), rtol=1e-6)


def test_numbers_have_gradients_too():
    q, k, v = arrays()
    d = rapt.gradients(q, k, v, np.ones((2, 4, 7, 5)), score="cosine", params={"tau": 2.0})[3]
    assert d["tau"].shape == (1,) and d["tau"].dtype == np.float64
