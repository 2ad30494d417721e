"""rapt.onnx.attention, by all cases that the onnx package has for Attention."""

import numpy as np
import onnx.backend.test.case.node.attention as cases
import pytest
from onnx import helper

import rapt.onnx

INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2}


def collect():
    found = {}

    def expect(node, inputs, outputs, name, **_):
        found[name] = (node, inputs, outputs)

    original, cases.expect = cases.expect, expect
    try:
        for name in dir(cases.Attention):
            if name.startswith("export"):
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
    if len(node.output) == 4 and node.output[3]:
        attributes.setdefault("qk_matmul_output_mode", 0)
    else:
        attributes.pop("qk_matmul_output_mode", None)
    return {**arrays, **attributes}


def compare(got, node, outputs):
    wanted = [array for array, slot in zip(got, node.output) if slot]
    assert len(wanted) == len(outputs)
    for mine, theirs in zip(wanted, outputs):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        tolerance = TOLERANCE.get(theirs.dtype.name, 1e-6)
        np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=5 * tolerance, atol=tolerance)


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
    with pytest.raises(ValueError, match="Q: expected a last dimension that 5 heads divide, got 24"):
        rapt.onnx.attention(x, x, x, q_num_heads=5, kv_num_heads=5)
    with pytest.raises(ValueError, match="past_value: expected together with past_key"):
        rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3, past_key=x)
    with pytest.raises(ValueError, match="qk_matmul_output_mode: expected 0 to 3, got 4"):
        rapt.onnx.attention(x, x, x, q_num_heads=3, kv_num_heads=3, qk_matmul_output_mode=4)
