"""The models of `rapt bench train` in PyTorch, written as its users would write them for speed."""

import math

import torch
from torch import nn
from torch.nn import functional

PAD, BEGIN, END = 0, 1, 2


class Seq2seq(nn.Module):
    """LSTM encoder and decoder with Luong's dot attention: s̃ = tanh(W_c[c; s])."""

    def __init__(self, symbols, embedding, hidden):
        super().__init__()
        self.source = nn.Embedding(symbols, embedding)
        self.encoder = nn.LSTM(embedding, hidden)
        self.target = nn.Embedding(symbols, embedding)
        self.decoder = nn.LSTM(embedding, hidden)
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, symbols)
        # PyTorch adds two biases to every gate; one of them stays zero, so that as many numbers are learned as in Rapt.
        for lstm in (self.encoder, self.decoder):
            nn.init.zeros_(lstm.bias_ih_l0)
            nn.init.zeros_(lstm.bias_hh_l0).requires_grad_(False)
        for linear in (self.combine, self.output):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.zeros_(self.output.bias)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=1 / math.sqrt(embedding))

    def attend(self, states, memory, hidden_keys):
        """states [T, B, H], memory [B, S, H]: all steps at once."""
        queries = states.transpose(0, 1)
        scores = torch.bmm(queries, memory.transpose(1, 2)).masked_fill(hidden_keys, float("-inf"))
        context = torch.bmm(scores.softmax(-1), memory)
        return torch.tanh(self.combine(torch.cat((context, queries), -1)))

    def forward(self, source, target_in):
        """Time first, as the LSTM wants it; logits [B, T, symbols]."""
        states, last = self.encoder(self.source(source))
        decoded, _ = self.decoder(self.target(target_in), last)
        return self.output(self.attend(decoded, states.transpose(0, 1), (source == PAD).t()[:, None, :]))

    @torch.inference_mode()
    def greedy(self, source, steps):
        states, state = self.encoder(self.source(source))
        memory = states.transpose(0, 1).contiguous()
        hidden_keys = (source == PAD).t()[:, None, :]
        token = torch.full((1, source.shape[1]), BEGIN)
        found = []
        for _ in range(steps):
            decoded, state = self.decoder(self.target(token), state)
            token = self.output(self.attend(decoded, memory, hidden_keys)).argmax(-1).t()
            found.append(token)
        return torch.cat(found)

    @torch.no_grad()
    def never_end(self):
        self.output.bias[END] = -1e4


def heads_of(x, heads):
    batch, steps, width = x.shape
    return x.view(batch, steps, heads, width // heads).transpose(1, 2)


class Attention(nn.Module):
    """Projections of one input are one product, as PyTorch's own module does it."""

    def __init__(self, width, heads, cross):
        super().__init__()
        self.heads, self.cross = heads, cross
        if cross:
            self.query, self.memory = nn.Linear(width, width), nn.Linear(width, 2 * width)
        else:
            self.all = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def reset(self, width):
        """Each projection drawn by itself, as in Rapt."""
        linears = [self.query, self.memory, self.out] if self.cross else [self.all, self.out]
        for linear in linears:
            for part in linear.weight.split(width):
                nn.init.xavier_uniform_(part)
            nn.init.zeros_(linear.bias)

    def keys_values(self, memory):
        return tuple(heads_of(x, self.heads) for x in self.memory(memory).chunk(2, -1))

    def project(self, out):
        return self.out(out.transpose(1, 2).flatten(2))

    def self_attend(self, x, causal, mask):
        q, k, v = (heads_of(part, self.heads) for part in self.all(x).chunk(3, -1))
        return self.project(functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal))

    def cross_attend(self, x, keys_values, mask):
        q = heads_of(self.query(x), self.heads)
        return self.project(functional.scaled_dot_product_attention(q, *keys_values, attn_mask=mask))

    def step(self, x, cache, place):
        """One query; its key and value go to their place in the cache."""
        q, k, v = (heads_of(part, self.heads) for part in self.all(x).chunk(3, -1))
        cache[0][:, :, place:place + 1], cache[1][:, :, place:place + 1] = k, v
        seen = [part[:, :, :place + 1] for part in cache]
        return self.project(functional.scaled_dot_product_attention(q, *seen))


class Block(nn.Module):
    """Pre-norm layer of the encoder, or with cross-attention of the decoder."""

    def __init__(self, width, heads, inner, cross):
        super().__init__()
        self.self_norm, self.inner_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.self_attention = Attention(width, heads, False)
        if cross:
            self.cross_norm, self.cross_attention = nn.LayerNorm(width), Attention(width, heads, True)
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)

    def mlp(self, x):
        return x + self.second(functional.relu(self.first(self.inner_norm(x))))

    def encode(self, x, mask):
        return self.mlp(x + self.self_attention.self_attend(self.self_norm(x), False, mask))

    def decode(self, x, memory, mask):
        x = x + self.self_attention.self_attend(self.self_norm(x), True, None)
        keys_values = self.cross_attention.keys_values(memory)
        return self.mlp(x + self.cross_attention.cross_attend(self.cross_norm(x), keys_values, mask))

    def step(self, x, cache, keys_values, mask, place):
        x = x + self.self_attention.step(self.self_norm(x), cache, place)
        return self.mlp(x + self.cross_attention.cross_attend(self.cross_norm(x), keys_values, mask))


class Transformer(nn.Module):
    """Encoder and decoder, norms first, sinusoidal positions, the output layer tied to the target embedding."""

    def __init__(self, symbols, width, heads, inner, layers, longest=512):
        super().__init__()
        self.width, self.heads = width, heads
        self.source, self.target = nn.Embedding(symbols, width), nn.Embedding(symbols, width)
        self.encoder = nn.ModuleList(Block(width, heads, inner, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, inner, True) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        angle = torch.arange(longest)[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
        positions = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
        self.register_buffer("positions", positions, persistent=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        for module in self.modules():
            if isinstance(module, Attention):
                module.reset(width)
        for table in (self.source, self.target):
            nn.init.normal_(table.weight, std=1 / math.sqrt(width))

    def embed(self, table, ids, first=0):
        return table(ids) * math.sqrt(self.width) + self.positions[first:first + ids.shape[1]]

    def encode(self, source, mask):
        x = self.embed(self.source, source)
        for block in self.encoder:
            x = block.encode(x, mask)
        return self.encoder_norm(x)

    def scores(self, x):
        return functional.linear(self.decoder_norm(x), self.target.weight)

    def forward(self, source, target_in):
        """Batch first; logits [B, T, symbols]."""
        mask = (source != PAD)[:, None, None, :]
        memory = self.encode(source, mask)
        x = self.embed(self.target, target_in)
        for block in self.decoder:
            x = block.decode(x, memory, mask)
        return self.scores(x)

    @torch.inference_mode()
    def greedy(self, source, steps):
        batch = source.shape[0]
        mask = (source != PAD)[:, None, None, :]
        memory = self.encode(source, mask)
        known = [block.cross_attention.keys_values(memory) for block in self.decoder]
        known = [tuple(part.contiguous() for part in pair) for pair in known]
        shape = (batch, self.heads, steps, self.width // self.heads)
        caches = [(torch.empty(shape), torch.empty(shape)) for _ in self.decoder]
        token = torch.full((batch, 1), BEGIN)
        found = []
        for place in range(steps):
            x = self.embed(self.target, token, place)
            for block, cache, keys_values in zip(self.decoder, caches, known):
                x = block.step(x, cache, keys_values, mask, place)
            token = self.scores(x).argmax(-1)
            found.append(token)
        return torch.cat(found, 1)

    @torch.no_grad()
    def never_end(self):
        self.target.weight[END] = 0
