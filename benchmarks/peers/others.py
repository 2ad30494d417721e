"""JAX and ONNX Runtime, where they are installed: plain and causal scaled-dot attention."""

import numpy


def _plain(case):
    return case.mechanism == "scaled_dot" and case.normalizer == "softmax" and not case.softcap and not case.window and not case.has_bias \
        and str(case.dtype) == "torch.float32" and case.queries == case.keys


def jax_calls(case, q, k, v, grad_out):
    """{direction: call}; each call returns when the numbers are there."""
    if not _plain(case):
        return {}
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}
    # JAX keeps heads after the sequence.
    arrays = [jnp.asarray(x.transpose(1, 2).contiguous().numpy()) for x in (q, k, v)]
    grad = jnp.asarray(grad_out.transpose(1, 2).contiguous().numpy())

    def attention(q, k, v):
        return jax.nn.dot_product_attention(q, k, v, is_causal=bool(case.causal))

    forward = jax.jit(attention)

    @jax.jit
    def both(q, k, v, g):
        out, pull = jax.vjp(attention, q, k, v)
        return out, pull(g)

    def run_forward():
        return numpy.asarray(forward(*arrays).block_until_ready()).transpose(0, 2, 1, 3)

    def run_both():
        _, grads = both(*arrays, grad)
        return [numpy.asarray(g.block_until_ready()).transpose(0, 2, 1, 3) for g in grads]

    # A backward pass alone is not to be had: forward and backward together, to be compared with Rapt's two.
    return {"forward": run_forward, "both": run_both}


def onnx_call(case, q, k, v, threads):
    if not _plain(case) or case.causal:
        return None
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return None
    batch, heads, length, dim = q.shape
    flat = [batch, length, heads * dim]
    names = ["q", "k", "v"]
    node = helper.make_node("MultiHeadAttention", names, ["out"], domain="com.microsoft", num_heads=heads)
    graph = helper.make_graph(
        [node], "attention", [helper.make_tensor_value_info(n, TensorProto.FLOAT, flat) for n in names],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, flat)])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {n: x.transpose(1, 2).reshape(flat).contiguous().numpy() for n, x in zip(names, (q, k, v))}

    def run():
        out = session.run(None, feeds)[0]
        return out.reshape(batch, length, heads, dim).transpose(0, 2, 1, 3)

    return run
