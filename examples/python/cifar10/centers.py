"""What the heads' centres of a run did: python centers.py RUN… [--json]

For each layer: the mean distance of the centres from the query and the mean spread √(trace/2) of the weights, before and
after, and how near the heads come to the K × K pixels of a kernel (each pixel its own head, the assignment of the least
sum) beside centres drawn at random with the same mean square. Then two claims of the course document, tested:

local, then spreading   heads begin narrow and near; in every layer they cover a larger area at the end
a kernel's grid         at the end each layer's centres are nearer to a grid than 95 of 100 random ones

`rapt plot centers RUN/centers.npy RUN/covariances.npy --out centers.svg` draws them.
"""

import argparse
import json
import math
import pathlib

import numpy as np


def places(model, images):
    """(centres [layers][heads][2], covariances [layers][heads][2][2]): rows down, then columns right of the query, in cells."""
    import torch

    found, x = [], model.cells(images.float()) if model.score == "learned_content" else None
    for block in model.blocks:
        layer = block.attention
        if model.score in ("quadratic", "gaussian"):
            p = {name: value.detach().double().cpu() for name, value in layer.score_parameters.items()}
            if model.score == "quadratic":
                precision = 2 * p["alpha"][:, None, None] * torch.eye(2, dtype=torch.float64)
            else:
                precision = p["gamma"].mT @ p["gamma"]
            found.append((p["center"].tolist(), covariance(precision, max(model.grid)).tolist()))
            continue
        weights = layer.weights(None if x is None else block.attention_norm(x))
        found.append(moments(weights.double().cpu(), model.grid))
        if x is not None:
            x = block(x)
    return [center for center, _ in found], [square for _, square in found]


def covariance(precision, side):
    """The inverse; what is wider than the image, or looks away from its centre, counts as wide as the image."""
    import torch

    values, vectors = torch.linalg.eigh(precision)
    largest = float(side * side)
    variances = torch.where(values * largest > 1, 1 / values.clamp_min(1e-300), largest)
    return vectors @ torch.diag_embed(variances) @ vectors.mT


def moments(weights, grid):
    """Mean and covariance of key − query over all queries and images, for weights [batch, heads, cells, cells]."""
    import torch
    from attention import offsets

    down, right = (t.double() for t in offsets(grid, weights.device))
    share = weights.sum((0, 2)).sum(-1)  # of all rows: their number
    mean = lambda what: (weights * what).sum((0, 2, 3)) / share
    center = torch.stack([mean(down), mean(right)], -1)
    square = torch.stack([mean(down * down), mean(down * right), mean(down * right), mean(right * right)], -1).unflatten(-1, (2, 2))
    return center.tolist(), (square - center[:, :, None] * center[:, None, :]).tolist()


def grid_distance(centers):
    """Mean distance of the K² pixels from heads of their own, for centres [draws, heads, 2]: all ways of giving heads out."""
    draws, heads, _ = centers.shape
    side = math.isqrt(heads)
    pixels = np.array([(n // side - side // 2, n % side - side // 2) for n in range(side * side)], float)
    costs = np.linalg.norm(centers[:, None] - pixels[None, :, None], axis=-1)  # [draws, pixels, heads]
    best = {0: np.zeros(draws)}  # of the heads that are given out, the least sum so far
    for pixel in range(side * side):
        found = {}
        for taken, sums in best.items():
            for head in range(heads):
                if not taken >> head & 1:
                    key, value = taken | 1 << head, sums + costs[:, pixel, head]
                    found[key] = np.minimum(found[key], value) if key in found else value
        best = found
    return np.minimum.reduce(list(best.values())) / len(pixels)


def report(centers, covariances, draws=200):
    """centers [epochs, layers, heads, 2], covariances [epochs, layers, heads, 2, 2]; the first epoch is before training."""
    distance = np.linalg.norm(centers, axis=-1).mean(-1)  # [epochs, layers]
    spread = np.sqrt(np.maximum(0, np.trace(covariances, axis1=-2, axis2=-1) / 2)).mean(-1)
    layers = []
    random = np.random.default_rng(0)
    for n in range(centers.shape[1]):
        last = centers[-1, n]
        drawn = random.normal(size=(draws, *last.shape)) * math.sqrt(np.square(last).sum(-1).mean() / 2)
        own, others = grid_distance(last[None])[0], grid_distance(drawn)
        layers.append({
            "layer": n, "distance": distance[:, n].tolist(), "spread": spread[:, n].tolist(),
            "grid_first": float(grid_distance(centers[:1, n])[0]), "grid_last": float(own),
            "grid_random": float(others.mean()), "nearer_than": float((others > own).mean()),
        })  # fmt: skip
    half = len(layers) // 2
    mean = lambda numbers, at, which: float(np.mean([layer[numbers][at] for layer in which]))
    return {
        "epochs": len(centers) - 1,
        "layers": layers,
        "distance": [mean("distance", 0, layers), mean("distance", -1, layers)],
        "distance_lower": mean("distance", -1, layers[:half] or layers),
        "distance_upper": mean("distance", -1, layers[half:]),
        "spread": [mean("spread", 0, layers), mean("spread", -1, layers)],
        "layers_wider": sum(layer["spread"][-1] > layer["spread"][0] for layer in layers),
        "layers_farther": sum(layer["distance"][-1] > layer["distance"][0] for layer in layers),
        "layers_like_a_grid": sum(layer["nearer_than"] >= 0.95 for layer in layers),
    }


def read(run):
    run = pathlib.Path(run)
    return report(np.load(run / "centers.npy"), np.load(run / "covariances.npy"))


def table(found):
    lines = ["layer  distance        spread          to the grid     random  nearer than"]
    for layer in found["layers"]:
        pair = lambda a, b: f"{a:5.2f} → {b:5.2f}   "
        lines.append(
            f"{layer['layer']:5}  {pair(layer['distance'][0], layer['distance'][-1])}{pair(layer['spread'][0], layer['spread'][-1])}"
            f"{pair(layer['grid_first'], layer['grid_last'])}{layer['grid_random']:6.2f}  {100 * layer['nearer_than']:.0f} %"
        )
    count = len(found["layers"])
    lines.append(
        f"local, then spreading: {found['layers_wider']} of {count} layers are wider, {found['layers_farther']} of {count} farther out"
    )
    lines.append(f"a kernel's grid: {found['layers_like_a_grid']} of {count} layers nearer to one than 95 of 100 random ones")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for run in given.runs:
        found = read(run)
        print(json.dumps({"run": str(run), **found}) if given.json else f"{run}\n{table(found)}")


if __name__ == "__main__":
    main()
