"""rapt.onnx.attention, by all cases that the onnx package has for Attention."""

import pickle

import numpy as np
import onnx.backend.test.case.node.attention as cases
import pytest
from onnx import helper

import rapt.onnx

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
RTOL, ATOL, BFLOAT16 = 1e-3, 1e-7, 2**-6  # those of the onnx package's own runner


def collect():
    found = {}

    def expect(node, inputs, outputs, name, **_):
        found[name] = (node, inputs, outputs)

    original, cases.expect = cases.expect, expect
    try:
        for name in dir(cases.Attention):
            if name.startswith("export"):
                np.random.seed(0)  # as the package draws them
                getattr(cases.Attention, name)()
    finally:
        cases.expect = original
    return found


CASES = collect()


def test_there_are_cases():
    assert len(CASES) >= 93


def given(node, inputs):
    rest = iter(inputs)
    arrays = {name: next(rest) for name, slot in zip(INPUTS, node.input) if slot}
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {**arrays, **attributes}


def compare(got, node, outputs):
    wanted = [array for array, slot in zip(got, node.output) if slot]
    assert len(wanted) == len(outputs)
    for mine, theirs in zip(wanted, outputs):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        rtol = BFLOAT16 if theirs.dtype.name == "bfloat16" else RTOL
        np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=rtol, atol=ATOL)


def test_products_are_made_when_they_are_read():
    x = np.random.default_rng(0).standard_normal((2, 5, 24), np.float32)
    products = rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3).qk_matmul_output
    assert products._made is None
    expected = rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3, qk_matmul_output_mode=0).qk_matmul_output
    assert products.shape == (2, 3, 5, 5) and products.dtype == np.float32 and len(products) == 2
    assert np.array_equal(products, expected) and np.array_equal(products[0, 1], expected[0, 1])
    assert not (products - expected).any() and not (expected - products).any() and (products == expected).all()
    assert isinstance(pickle.loads(pickle.dumps(products)), np.ndarray) and repr(products) == repr(expected)


def test_products_of_tensors_are_made_when_they_are_read():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 3, 5, 8, requires_grad=True)
    products = rapt.onnx.attention(x, x, x).qk_matmul_output
    expected = x @ x.mT * 8**-0.5
    torch.testing.assert_close(torch.abs(products - expected) + abs(expected - products), torch.zeros_like(expected), atol=1e-5, rtol=0)
    products.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    node, inputs, outputs = CASES[name]
    compare(rapt.onnx.attention(**given(node, inputs)), node, outputs)


@pytest.mark.parametrize("name", [name for name in CASES if "bf16" not in name])
def test_case_with_tensors(name):
    torch = pytest.importorskip("torch")
    node, inputs, outputs = CASES[name]
    tensors = {n: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for n, x in given(node, inputs).items()}
    got = [x if x is None else x.numpy() for x in rapt.onnx.attention(**tensors)]
    compare(got, node, outputs)


def test_errors():
    x = np.zeros((2, 5, 24), np.float32)
    with pytest.raises(ValueError, match="q_num_heads, kv_num_heads: expected both"):
        rapt.onnx.attention(x, x, x)
    for heads in ({"q_num_heads": 7}, {"kv_num_heads": 3}, {"q_num_heads": 3, "kv_num_heads": 3}):  # onnx's reference raises too
        with pytest.raises(ValueError, match="expected none where the inputs have four dimensions, got"):
            rapt.onnx.attention(*[x.reshape(2, 3, 5, 8)] * 3, **heads)
    with pytest.raises(ValueError, match="q_num_heads, kv_num_heads: expected 1 or more, got -3 and -3"):
        rapt.onnx.attention(x, x, x, q_num_heads=-3, kv_num_heads=-3)
    with pytest.raises(ValueError, match="Q: expected a last dimension that 5 heads divide, got 24"):
        rapt.onnx.attention(x, x, x, q_num_heads=5, kv_num_heads=5)
    with pytest.raises(ValueError, match="past_value: expected together with past_key"):
        rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3, past_key=x)
    with pytest.raises(ValueError, match="qk_matmul_output_mode: expected 0 to 3, got 4"):
        rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3, qk_matmul_output_mode=4)
