"""Published masks and scores that attention-gym has, written from their definitions, pair by pair against dense scores."""

import math

import pytest
import torch
from test_flex import B, D, H, causal, dense
from test_flex_mods import compared
from torch.nn.attention.flex_attention import BlockMask, and_masks, or_masks

from rapt.torch import flex_attention

S = 48


def numbers(queries=S, keys=S, key_batch=B):
    make = lambda batch, length: torch.randn(batch, H, length, D, dtype=torch.float64, requires_grad=True)
    return make(B, queries), make(key_batch, keys), make(key_batch, keys)


def learned(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def block_diffusion(length, size):
    """Noisy tokens, and behind them the clean ones: of their own noisy block, and of clean blocks before."""

    def mask(b, h, q, k):
        q_block, k_block = q % length // size, k % length // size
        noisy = (k < length) & (q < length) & (q_block == k_block)
        clean = (k >= length) & torch.where(q < length, k_block < q_block, k_block <= q_block)
        return noisy | clean

    return mask


def shared_prefix(lengths, prefix_of):
    """Documents in a row, some of which continue another that is written once."""
    starts = torch.tensor([0, *lengths]).cumsum(0)
    document = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    prefix = torch.tensor(prefix_of)

    def mask(b, h, q, k):
        own, before = document[q], prefix[document[q]]
        return ((k <= q) & (k >= starts[own])) | ((before != own) & (k >= starts[before]) & (k < starts[before + 1]))

    return mask


def with_global_tokens(width, chosen):
    """Longformer: a window, and tokens that see all and are seen by all."""
    return or_masks(lambda b, h, q, k: abs(q - k) <= width, lambda b, h, q, k: chosen[q] | chosen[k])


def sliding_tiles_3d(canvas, tile, kernel, text):
    """Cubes of a film that see the cubes around their own, which stay within it; all see the text behind it, which sees all."""
    count = [n // size for n, size in zip(canvas, tile)]
    film, inner = math.prod(canvas), math.prod(tile)

    def place(n):
        cube = n // inner
        return cube // (count[1] * count[2]), cube // count[2] % count[1], cube % count[2]

    def mask(b, h, q, k):
        near = (q < film) & (k < film)
        for at, other, most, size in zip(place(q), place(k), count, kernel):
            left, right = size // 2, (size - 1) // 2
            center = torch.clamp(at, left, most - 1 - right)
            near = near & (other >= center - left) & (other <= center + right)
        return near | ((k >= film) & (k < film + text)) | ((q >= film) & (k < film + text))

    return mask


def tree(parents, prefix):
    """Speculative decoding: guesses in a tree see the prefix, themselves and what they continue."""
    sees = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node in range(len(parents)):
        at = node
        while at >= 0:
            sees[node, at] = True
            at = parents[at]
    return lambda b, h, q, k: (k < prefix) | ((k >= prefix) & sees[q, (k - prefix).clamp(min=0)])


def guesses(prefix, size):
    """Blocks of guesses behind a prefix, each causal and alone."""
    return lambda b, h, q, k: (k < prefix) | ((k >= prefix) & ((k - prefix) // size == q // size) & ((k - prefix) % size <= q % size))


PARENTS = [-1, 0, 0, 1, 1, 2, 3, 6, 5, 0]
MASKS = {
    "block diffusion": (block_diffusion(S // 2, 4), S, S),
    "block diffusion, causal": (and_masks(block_diffusion(S // 2, 6), causal), S, S),
    "a shared prefix": (shared_prefix([9, 5, 7, 11, 4, 12], [0, 0, 0, 3, 3, 3]), S, S),
    "global tokens": (with_global_tokens(3, torch.arange(S) % 17 == 4), S, S),
    "global tokens, causal": (and_masks(with_global_tokens(2, torch.arange(S) % 13 == 0), causal), S, S),
    "sliding cubes": (sliding_tiles_3d((2, 4, 6), (1, 2, 2), (1, 1, 3), 5), 53, 53),
    "sliding cubes of even kernels": (sliding_tiles_3d((4, 2, 6), (1, 1, 2), (2, 2, 1), 0), S, S),
    "a tree": (tree(PARENTS, 20), len(PARENTS), 20 + len(PARENTS)),
    "a tree without a prefix": (tree(PARENTS, 0), len(PARENTS), len(PARENTS)),
    "blocks of guesses": (guesses(16, 5), 30, 46),
}


@pytest.mark.parametrize("name", MASKS)
def test_mask(name):
    torch.manual_seed(3)
    mask_mod, queries, keys = MASKS[name]
    compared(*numbers(queries, keys), None, mask_mod)


def distances(batch, nodes, most):
    """Shortest paths in random graphs; far ones and none are one class."""
    edges = torch.rand(batch, nodes, nodes) < 0.06
    found, reached = torch.full((batch, nodes, nodes), most + 1), torch.eye(nodes, dtype=torch.bool).expand(batch, -1, -1)
    for steps in range(most + 1):
        found = torch.where(reached & (found > steps), steps, found)
        reached = reached | (reached.double() @ edges.double() > 0)
    return found.int()


def test_graphs():
    """Graphormer: a learned number for the distance of two nodes, and the mean of one for each edge between them."""
    torch.manual_seed(4)
    apart = distances(B, S, 5)
    by_distance, by_edge = learned(H, 7), learned(H, 3, 4)  # [heads, place on the path, kind of edge]
    kinds, lengths = torch.randint(0, 4, (B, S, S, 3), dtype=torch.int32), torch.randint(0, 4, (B, S, S), dtype=torch.int32)

    def on_paths(s, b, h, q, k):
        length, total = lengths[b, q, k], 0.0
        for n in range(3):
            total = total + torch.where(n < length, by_edge[h, n, kinds[b, q, k, n]], 0.0)
        return s + total / length.clamp(min=1)

    q, k, v = numbers()
    compared(q, k, v, lambda s, b, h, q, k: s + by_distance[h, apart[b, q, k]], None, by_distance)
    compared(q, k, v, on_paths, lambda b, h, q, k: apart[b, q, k] <= 5, by_edge)


def test_sandwich():
    """Sums of cosines of the offset, weaker from head to head: from a table, and as they stand."""
    frequencies = [10000 ** (-2 * n / 16) for n in range(8)]
    offsets = torch.arange(2 * S - 1, dtype=torch.float64) - (S - 1)
    table = sum(torch.cos(offsets * f) for f in frequencies)
    strength = H / (8.0 * torch.arange(1, H + 1, dtype=torch.float64))
    q, k, v = numbers()
    from_table = lambda s, b, h, i, j: s + table[i - j + S - 1] * strength[h]
    compared(q, k, v, from_table, causal)
    compared(q, k, v, lambda s, b, h, i, j: s + sum(torch.cos((i - j).double() * f) for f in frequencies) * H / (8.0 * (h.double() + 1)), causal)
    tokens = flex_attention(q, k, v, lambda s, b, h, i, j: s + sum(torch.cos((i - j).double() * f) for f in frequencies) * H / (8.0 * (h.double() + 1)))
    torch.testing.assert_close(flex_attention(q, k, v, from_table), tokens)


def test_activations_in_place_of_softmax():
    """log(f(s) + c) as score: softmax divides by what its lse says, and f(S) v is what remains."""
    q, k, v = numbers()
    for activation in (torch.nn.functional.gelu, torch.relu, torch.sigmoid):
        out, lse = flex_attention(q, k, v, lambda s, b, h, i, j: torch.log(activation(s) + 1.0), return_lse=True)
        found = out * lse.exp()[..., None] - v.sum(-2, keepdim=True)
        expected = activation(q @ k.mT * D**-0.5) @ v
        torch.testing.assert_close(found, expected)
        for a, b in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (found, expected))):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("listed", [False, True])
def test_pages(listed):
    """Paged attention: keys of all batches in pages of one memory, and tables of whose they are. A mod is told the logical key."""
    torch.manual_seed(6)
    page, pages = 4, S // 4
    order = torch.randperm(2 * pages)
    logical = torch.full((B, 2 * pages), -1)  # of each page of the memory
    for b in range(B):
        logical[b, order[b * 8 : b * 8 + 8]] = torch.arange(8)  # 32 keys each
    document = torch.arange(S) // 9
    slopes = learned(H)

    def of_logical(mod, otherwise):
        def paged(*x):
            *front, k = x
            block = logical[x[-4], k // page]
            return torch.where(block >= 0, mod(*front, block * page + k % page), otherwise)

        return paged

    own_mask = lambda b, h, i, j: (j <= i) & (document[i] == document[j])
    own_score = lambda s, b, h, i, j: s - slopes[h] * (i - j)
    mask_mod, score_mod = of_logical(own_mask, False), of_logical(own_score, -math.inf)
    q, memory_k, memory_v = numbers(32, 2 * S, 1)
    block_mask = mask_mod
    if listed:  # whose pages they are, as a direct BlockMask
        counts = torch.full((B, 1, 32 // page), 8, dtype=torch.int32)
        indices = torch.stack([order[b * 8 : b * 8 + 8] for b in range(B)])[:, None, None].expand(B, 1, 32 // page, 8)
        indices = torch.nn.functional.pad(indices, (0, 2 * pages - 8), value=0).int()
        block_mask = BlockMask((32, 2 * S), counts, indices, None, None, None, None, None, None, (page, page), mask_mod)
    out = flex_attention(q, memory_k, memory_v, score_mod, block_mask)
    gathered = [torch.stack([x[0][:, (order[b * 8 : b * 8 + 8, None] * page + torch.arange(page)).flatten()] for b in range(B)]) for x in (memory_k, memory_v)]
    expected = dense(q, *gathered, own_score, own_mask)
    torch.testing.assert_close(out, expected)
    inputs = (q, memory_k, memory_v, slopes)
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), inputs) for x in (out, expected))):
        torch.testing.assert_close(a, b)


def test_chosen_cubes_of_a_film():
    """Video sparse attention: cubes that a coarse pass chose, of which some end in tokens that are none."""
    torch.manual_seed(7)
    cube, cubes, chosen = 8, 6, 2
    sizes = torch.tensor([8, 6, 8, 8, 4, 2])
    q, k, v = numbers()
    coarse = [x.detach().unflatten(2, (cubes, cube)).mean(3) for x in (q, k)]
    best = (coarse[0] @ coarse[1].mT).topk(chosen).indices  # [B, H, cubes, chosen]
    is_token = lambda n: n % cube < sizes[n // cube]
    mask_mod = lambda b, h, i, j: is_token(i) & is_token(j)
    indices = torch.nn.functional.pad(best, (0, cubes - chosen)).int()
    counts = torch.full((B, H, cubes), chosen, dtype=torch.int32)
    block_mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=cube, mask_mod=mask_mod)
    listed = torch.zeros(B, H, cubes, cubes, dtype=torch.bool).scatter(-1, best, True)
    expected = dense(q, k, v, None, lambda b, h, i, j: listed[b, h, i // cube, j // cube] & is_token(i) & is_token(j))
    out = flex_attention(q, k, v, None, block_mask)
    torch.testing.assert_close(out, expected)
    for a, b in zip(*(torch.autograd.grad(x.sin().sum(), (q, k, v)) for x in (out, expected))):
        torch.testing.assert_close(a, b)
