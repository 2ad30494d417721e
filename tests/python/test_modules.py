"""Modules of rapt.torch."""

import copy
import pickle

import pytest
import torch

import rapt
import rapt.torch as rt


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_of_pytorchs_module(separate, bias):
    options = dict(kdim=12, vdim=10) if separate else {}
    theirs = torch.nn.MultiheadAttention(16, 4, bias=bias, batch_first=True, dtype=torch.float64, **options)
    mine = rt.MultiHeadAttention.from_torch(theirs)
    query = torch.randn(2, 7, 16, dtype=torch.float64)
    key = torch.randn(2, 9, 12 if separate else 16, dtype=torch.float64)
    value = torch.randn(2, 9, 10 if separate else 16, dtype=torch.float64)
    expected, weights = theirs(query, key, value, average_attn_weights=False)
    out, own = mine(query, key, value, need_weights=True)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(own, weights)
    other = rt.MultiHeadAttention(16, 4, bias=bias, key_dim=options.get("kdim"), value_dim=options.get("vdim")).double()
    other.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(other(query, key, value), expected)


@pytest.mark.parametrize("batch_first", [False, True])
def test_the_layout_of_pytorchs_module(batch_first):
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=batch_first, dtype=torch.float64).eval()
    mine = rt.MultiHeadAttention.from_torch(theirs)
    assert mine.batch_first == batch_first and not mine.training
    query, key = torch.randn(3, 3, 16, dtype=torch.float64), torch.randn(3, 3, 16, dtype=torch.float64)
    expected, weights = theirs(query, key, key, average_attn_weights=False)
    out, own = mine(query, key, need_weights=True)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(own, weights)
    torch.testing.assert_close(mine(query[0], key[0]), theirs(query[0], key[0], key[0])[0])


def test_weights_of_pytorchs_module_under_another_score():
    theirs = torch.nn.MultiheadAttention(16, 4)
    mine = rt.MultiHeadAttention(16, 4, score="t5", params={"table": torch.randn(4, 32)})
    table = mine.score_parameters["table"].detach().clone()
    outer = torch.nn.Sequential(mine)
    outer.load_state_dict(torch.nn.Sequential(theirs).state_dict())  # strict
    assert torch.equal(mine.score_parameters["table"], table)
    assert torch.equal(mine.q_proj.weight, theirs.in_proj_weight[:16])
    assert torch.equal(rt.MultiHeadAttention.from_torch(theirs, score="t5").v_proj.weight, theirs.in_proj_weight[32:])


@pytest.mark.parametrize("score", ["scaled_dot", "dot", "alibi", "t5", "shaw", "cosine", "distance", "bilinear", "additive"])
def test_every_score_learns(score):
    torch.manual_seed(0)
    module = rt.MultiHeadAttention(16, 4, score=score, rotary=4 if score == "scaled_dot" else None, causal="top_left")
    x = torch.randn(2, 6, 16)
    module(x).square().sum().backward()
    for name, parameter in module.named_parameters():
        # A bias of the keys shifts all scores of a row alike under products, and changes nothing.
        if name != "k_proj.bias":
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
    again = pickle.loads(pickle.dumps(module))
    torch.testing.assert_close(again(x), module(x))
    torch.testing.assert_close(copy.deepcopy(module)(x), module(x))


def test_grouped_heads_normalizers_and_masks():
    module = rt.MultiHeadAttention(16, 4, key_heads=2, normalizer="entmax15", window=(2, 0))
    x = torch.randn(2, 6, 16)
    whole = module(x)
    shorter = module(x[:, :4])
    torch.testing.assert_close(whole[:, :4], shorter)  # a window of the past
    masked = module(x, mask=torch.ones(6, 6, dtype=torch.bool))
    torch.testing.assert_close(masked, whole)


def test_bad_modules():
    with pytest.raises(ValueError, match="heads: expected a divisor of 16, got 3"):
        rt.MultiHeadAttention(16, 3)
    with pytest.raises(ValueError, match="score: expected one of .*got 'none'"):
        rt.MultiHeadAttention(16, 4, score="none")
    with pytest.raises(ValueError, match="params: expected 'r' of transformer_xl"):
        rt.MultiHeadAttention(16, 4, score="transformer_xl")
    with pytest.raises(ValueError, match="tasks: expected 2, got 1"):
        rt.SharedAttention(8, 8, 2, 2)(torch.randn(1, 3, 8), [torch.randn(1, 3, 8)])


def test_additive_and_bilinear():
    q, k, v = torch.randn(2, 5, 6), torch.randn(2, 7, 4), torch.randn(2, 7, 3)
    additive = rt.AdditiveAttention(6, 4, 10)
    p = additive.score_parameters
    scores = (torch.tanh((q @ p["Wq"])[:, :, None] + (k @ p["Wk"])[:, None]) * p["w"]).sum(-1)
    torch.testing.assert_close(additive(q, k, v), scores.softmax(-1) @ v)
    bilinear = rt.BilinearAttention(6, 4)
    scores = q @ bilinear.score_parameters["W"] @ k.transpose(-1, -2)
    torch.testing.assert_close(bilinear(q, k, v), scores.softmax(-1) @ v)


def test_quadratic_attention_is_a_convolution():
    """Heads that look at one neighbour each are a convolution (Cordonnier and others, 2020)."""
    module = rt.QuadraticAttention2d(3, 9, out=5).double()
    offsets = torch.tensor([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)], dtype=torch.float64)
    with torch.no_grad():
        module.score_parameters["alpha"].fill_(60.0)
        module.score_parameters["center"].copy_(offsets)
    image = torch.randn(2, 6, 7, 3, dtype=torch.float64)
    kernel = module.out_proj.weight.reshape(5, 3, 3, 3).permute(0, 3, 1, 2)
    expected = torch.nn.functional.conv2d(image.permute(0, 3, 1, 2), kernel, module.out_proj.bias)
    inner = module(image)[:, 1:-1, 1:-1].permute(0, 3, 1, 2)
    torch.testing.assert_close(inner, expected)


def test_shared_attention():
    module = rt.SharedAttention(12, 8, 2, 4)
    x, tasks = torch.randn(2, 6, 12), [torch.randn(2, 6, 8) for _ in range(2)]
    split = lambda t: t.unflatten(-1, (4, -1)).transpose(1, 2)
    q, k = split(module.q_proj(x)), split(module.k_proj(x))
    weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
    outs = module(x, tasks)
    for n in range(2):
        v = split(module.v_projs[n](module.norms[n](tasks[n])))
        expected = tasks[n] + module.out_projs[n]((weights @ v).transpose(1, 2).flatten(-2))
        torch.testing.assert_close(outs[n], expected)
    sum(out.sum() for out in outs).backward()
    assert all(p.grad is not None for p in module.parameters())
