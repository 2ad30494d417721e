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
    with pytest.raises(ValueError, match="params: expected 'row' of learned_2d"):
        rt.MultiHeadAttention(16, 4, score="learned_2d")
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


@pytest.mark.parametrize("score", ["transformer_xl", "quadratic", "gaussian", "learned_2d"])
def test_scores_whose_parameters_need_more_than_the_heads(score):
    torch.manual_seed(0)
    grid = None if score == "transformer_xl" else (3, 4)
    module = rt.MultiHeadAttention(16, 4, score=score, grid=grid)
    x = torch.randn(2, 12, 16)
    out, weights = module(x, need_weights=True)
    out.square().sum().backward()
    assert weights.shape == (2, 4, 12, 12)
    for name, parameter in module.score_parameters.items():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    assert torch.equal(pickle.loads(pickle.dumps(module))(x), out)


def test_transformer_xl_by_hand():
    torch.manual_seed(0)
    module = rt.MultiHeadAttention(16, 2, score="transformer_xl", distance=9).double()
    with torch.no_grad():
        module.score_parameters["u"].normal_()
        module.score_parameters["v"].normal_()
    x = torch.randn(1, 10, 16, dtype=torch.float64)
    q, k, v = (project(x).unflatten(-1, (2, 8)).transpose(1, 2) for project in (module.q_proj, module.k_proj, module.v_proj))
    p = module.score_parameters
    rows = p["r"][torch.arange(10) - torch.arange(10)[:, None] + 9]  # [queries, keys, dim]
    scores = ((q + p["u"][:, None]) @ k.mT + torch.einsum("bhid,ijd->bhij", q + p["v"][:, None], rows)) / 8**0.5
    expected = module.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(module(x), expected)
    longer = torch.randn(1, 11, 16, dtype=torch.float64)
    with pytest.raises(ValueError, match="parameter 'r': expected rows for the 21 offsets"):
        module(longer)


def test_a_formula_learns():
    torch.manual_seed(0)
    kerple = rapt.formula("raw*scale - a*log(1 + b*abs(i-j)) + t[clip(j-i, -4, 4) + 4]", visible="j <= i")
    with pytest.raises(ValueError, match=r"params: expected 't' of the formula .*, got none; a tuple of sizes begins at 0"):
        rt.MultiHeadAttention(16, 4, score=kerple)
    module = rt.MultiHeadAttention(16, 4, score=kerple, params={"t": (4, 9), "b": 0.5}).double()
    assert {n: tuple(p.shape) for n, p in module.score_parameters.items()} == {"a": (4,), "b": (), "t": (4, 9)}
    assert {"score_parameters.a", "score_parameters.t"} <= set(module.state_dict())
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    q, k, v = (project(x).unflatten(-1, (4, 4)).transpose(1, 2) for project in (module.q_proj, module.k_proj, module.v_proj))
    p, apart = module.score_parameters, torch.arange(7) - torch.arange(7)[:, None]
    scores = q @ k.mT * 0.5 - p["a"][:, None, None] * torch.log(1 + p["b"] * apart.abs()) + p["t"][:, apart.clip(-4, 4) + 4]
    expected = module.out_proj((scores.masked_fill(apart > 0, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(-2))
    out, weights = module(x, need_weights=True)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(weights, scores.masked_fill(apart > 0, -torch.inf).softmax(-1))
    for a, b in zip(*(torch.autograd.grad(y.sin().sum(), list(module.parameters())) for y in (out, expected))):
        torch.testing.assert_close(a, b)
    assert torch.equal(copy.deepcopy(module)(x), out) and torch.equal(pickle.loads(pickle.dumps(module))(x), out)
    squares = rt.MultiHeadAttention(16, 4, score=rapt.formula("raw", pair="w*tanh(q+k)"))
    assert squares.score_parameters["w"].shape == (4, 4)
    assert squares(x.float()).shape == (2, 7, 16)
