"""rapt.formula: texts and functions, against the definition."""

import pickle

import numpy as np
import oracle
import pytest
from test_numpy import arrays

import rapt
from rapt import formulas

random = np.random.default_rng(2)


def test_a_text_is_the_mechanism_it_says():
    q, k, v = arrays()
    slopes = random.random(4)
    text = rapt.formula("raw*scale - m*abs(i-j)", visible="j <= i")
    out = rapt.attend(q, k, v, score=text, params={"m": slopes})
    np.testing.assert_allclose(out, oracle.attend(q, k, v, score="alibi", params={"m": slopes}, causal="top_left")[0], atol=1e-12)
    grad = random.standard_normal(out.shape)
    mine = rapt.gradients(q, k, v, grad, score=text, params={"m": slopes})
    theirs = rapt.gradients(q, k, v, grad, score="alibi", params={"m": slopes}, causal="top_left")
    for a, b in zip((*mine[:3], mine[3]["m"]), (*theirs[:3], theirs[3]["m"])):
        np.testing.assert_allclose(a, b, atol=1e-11)
    np.testing.assert_allclose(rapt.weights(q, k, score=text, params={"m": slopes}).sum(-1), 1, atol=1e-12)


def test_a_function_is_the_text():
    made = rapt.formula(lambda raw, scale, i, j, m: raw * scale - m * abs(i - j), visible=lambda i, j: (j <= i) & (i - j < 5))
    assert [p["name"] for p in made.parameters] == ["m"]
    q, k, v = arrays()
    slopes = random.random(4)
    expected = oracle.attend(q, k, v, score="alibi", params={"m": slopes}, causal="top_left", window=(4, -1))[0]
    np.testing.assert_allclose(rapt.attend(q, k, v, score=made, params={"m": slopes}), expected, atol=1e-12)


def test_functions_of_numpy_and_tables():
    q, k, v = arrays()
    table = random.standard_normal((4, 9))

    def score(raw, i, j, t):
        far = np.minimum(np.abs(i - j), 8)
        return np.where(far > 3, np.tanh(raw), raw) + t[far] + (i % 3) * 0.1 - (j // 2) * 0.2

    out = rapt.attend(q, k, v, score=rapt.formula(score), params={"t": table})
    i, j = np.arange(7)[:, None], np.arange(9)
    far = np.minimum(abs(i - j), 8)
    raw = q @ np.repeat(k, 2, 1).swapaxes(-1, -2)
    scores = np.where(far > 3, np.tanh(raw), raw) + table[:, far] + (i % 3) * 0.1 - (j // 2) * 0.2
    np.testing.assert_allclose(out, oracle.softmax(scores) @ np.repeat(v, 2, 1), atol=1e-12)


def test_pairs():
    q, k, v = arrays(key_heads=4)
    out = rapt.attend(q, k, v, score=rapt.formula("raw", pair="-abs(q-k)"))
    scores = -abs(q[..., :, None, :] - k[..., None, :, :]).sum(-1)
    np.testing.assert_allclose(out, oracle.softmax(scores) @ v, atol=1e-12)


def test_a_formula_is_a_value():
    a, b = rapt.formula("raw*2"), rapt.formula(lambda raw: raw * 2)
    assert a == rapt.formula("raw*2") and hash(a) == hash(rapt.formula("raw*2")) and a != b
    assert pickle.loads(pickle.dumps(a)) == a and repr(a) == "rapt.formula('raw*2')"
    with pytest.raises(AttributeError):
        a.score = "raw"


def test_errors():
    with pytest.raises(ValueError, match="expected .* at character"):
        rapt.formula("raw * (scale + 1")
    with pytest.raises(TypeError, match="expected where"):
        rapt.formula(lambda raw, i, j: raw if i > j else -raw)
    with pytest.raises(TypeError, match="expected a text or a function, got int"):
        rapt.formula(3)
    q, k, v = arrays()
    with pytest.raises(ValueError, match="parameter 'm'"):
        rapt.attend(q, k, v, score=rapt.formula("raw*m"))
    assert formulas.number(formulas.Symbol("raw") * -1.5) == "(raw * (-1.5))"
