"""Training a small Transformer in PyTorch: one step with PyTorch's attention and one with Rapt's, in turn, on the same threads."""

import argparse
import statistics
import time

import torch

import rapt
import rapt.torch

MINE, THEIRS = rapt.torch.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.feed = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x, attention):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.feed(self.second(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--shape", type=int, nargs=4, default=[8, 256, 256, 4], help="batch, tokens, width, heads")
    parser.add_argument("--processor-time", action="store_true", help="time in which the threads worked, for a busy machine")
    arguments = parser.parse_args()
    now = time.process_time if arguments.processor_time else time.perf_counter
    batch, tokens, width, heads = arguments.shape
    torch.manual_seed(0)
    model = torch.nn.ModuleList(Layer(width, heads) for _ in range(2))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x, target = torch.randn(batch, tokens, width), torch.randn(batch, tokens, width)

    def step(attention):
        start = now()
        y = x
        for layer in model:
            y = layer(y, attention)
        loss = (y - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return now() - start

    for threads in arguments.threads:
        torch.set_num_threads(threads)
        times = {MINE: [], THEIRS: []}
        for n in range(arguments.steps + 3):
            for attention in (MINE, THEIRS) if n % 2 else (THEIRS, MINE):
                taken = step(attention)
                if n >= 3:
                    times[attention].append(taken)
        mine, theirs = (statistics.median(times[a]) * 1e3 for a in (MINE, THEIRS))
        print(f"{threads:3} threads: {mine:8.2f} ms a step with Rapt, {theirs:8.2f} ms with PyTorch's, ratio {theirs / mine:.2f}")


main()
