"""examples/python/scenes: the same scenes as the tool's, the same network, and what the comparison makes of results."""

import importlib
import itertools
import json
import math
import pathlib
import sys

import numpy as np
import pytest
import torch

ROOT = pathlib.Path(__file__).parents[2] / "examples" / "python"
EXPERIMENTS = ROOT.parents[1] / "data" / "experiments"


@pytest.fixture(scope="module")
def example():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors: other threads only wait
    names = ("compare", "network", "render", "train", "pieces", "stored")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    path = list(sys.path)
    sys.path[:0] = [str(ROOT / "scenes"), str(ROOT / "common")]
    yield type("Example", (), {name: importlib.import_module(name) for name in names})
    sys.path[:] = path
    torch.set_num_threads(threads)
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


# render_scenes({.seed = 7, .size = 12, .samples = 2}, part 2, scenes 0 to 2) of src/tasks/scenes.h: sums over all three,
# and of each the pixel in row 7, column 5. The tool gives the sky a depth of 30.
SUMS = {"rgb": 487.463296, "segmentation": 675, "depth": 4249.83971, "normals": -441.484742, "edges": 117, "reshading": 264.415505}
PIXELS = [
    ([0.3582139, 0.3193462, 0.4823679], 1, 5.146518, [0.0510947, -0.8278874, -0.5585623], 1, 0.8840551),
    ([0.0995912, 0.0690277, 0.1367597], 1, 6.590729, [0.0348482, -0.8964409, -0.4417911], 1, 0.8047919),
    ([0.2396817, 0.4547212, 0.4986776], 1, 5.557349, [-0.0507060, -0.9235088, -0.3802111], 0, 0.8149261),
]


def test_scenes_are_the_tools(example):
    found = example.render.render(7, 2, 0, 3, size=12, samples=2, together=2)
    sums = {name: float(t.double().nan_to_num(30).sum()) for name, t in found.items()}
    assert sums == pytest.approx(SUMS, rel=1e-6)
    for n, pixel in enumerate(PIXELS):
        for name, expected in zip(found, pixel):
            np.testing.assert_allclose(found[name][n, 7, 5].numpy(), expected, rtol=1e-5, atol=1e-6, err_msg=name)
    later = example.render.render(7, 2, 1, 1, size=12, samples=2)
    assert all(torch.equal(later[name][0].nan_to_num(-1), found[name][1].nan_to_num(-1)) for name in found)


def test_sizes_are_the_tools(example):
    """The counts that `rapt bench multitask` prints for the default network."""
    none, shared, single = (example.train.make(variant, "plain") for variant in ("none", "shared", "single:depth"))
    assert (none.parameter_count(), shared.parameter_count()) == (348_692, 300_796)
    assert [round(1e-6 * n.multiply_adds(), 1) for n in (none, shared)] == [40.9, 33.5]
    assert single.tasks == ("depth",)
    equal = example.train.make("shared_parameters", "plain")
    assert abs(equal.parameter_count() / none.parameter_count() - 1) < 0.005
    equal = example.train.make("shared_compute", "plain")
    assert abs(equal.multiply_adds() / none.multiply_adds() - 1) < 0.005
    assert equal.encoder.state_dict().keys() == none.encoder.state_dict().keys()
    assert all(a.shape == b.shape for a, b in zip(equal.encoder.parameters(), none.encoder.parameters()))
    with pytest.raises(SystemExit, match="got 'half'"):
        example.train.make("half", "plain")


@pytest.mark.parametrize("sharing", ["none", "shared"])
def test_implementations_agree(example, sharing):
    generator = torch.Generator().manual_seed(0)
    rgb = torch.rand(2, 32, 32, 3, generator=generator)
    tasks, found, gradients = ("segmentation", "depth", "normals"), [], []
    for implementation in ("plain", "rapt"):
        model = example.network.initialize(example.network.Network(tasks, sharing, implementation), 3)
        for block in (m for m in model.modules() if isinstance(m, example.network.Block)):
            torch.nn.init.normal_(block.bias, generator=torch.Generator().manual_seed(block.window))
        out = model(rgb)
        sum(x.square().sum() for x in out).backward()
        found.append(out)
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    for a, b in zip(*found):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    # The gradient of a bias of the keys is 0 but for rounding, so the largest of all gradients is the measure.
    largest = max(float(g.abs().max()) for g in gradients[0].values())
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-3, atol=1e-5 * largest, msg=name)


def test_cells_and_windows(example):
    x = torch.arange(4 * 4 * 2.0).reshape(1, 4, 4, 2)
    merged = example.network.merge_cells(x, 2)
    assert merged[0, 0, 1].tolist() == [*x[0, 0, 2].tolist(), *x[0, 0, 3].tolist(), *x[0, 1, 2].tolist(), *x[0, 1, 3].tolist()]
    assert torch.equal(example.network.split_cells(merged, 2), x)
    block = example.network.Block(2, 4, 1, 1, 4, 2, "plain")
    windows = block.to_windows(x)
    assert windows.shape == (4, 4, 2) and torch.equal(windows[3], x[0, 2:, 2:].reshape(4, 2))
    assert torch.equal(block.from_windows(windows, x.shape), x)


def fake_truth(count=3, size=4):
    generator = torch.Generator().manual_seed(4)
    normals = torch.randn(count, size, size, 3, generator=generator)
    normals = normals / normals.norm(dim=-1, keepdim=True)
    depth = torch.rand(count, size, size, generator=generator) * 9 + 1
    normals[0, 0, 0] = 0
    depth[0, 0, 0] = math.nan
    return {
        "segmentation": torch.randint(6, (count, size, size), generator=generator).to(torch.uint8), "depth": depth, "normals": normals,
        "edges": torch.randint(2, (count, size, size), generator=generator).to(torch.uint8),
        "reshading": torch.rand(count, size, size, generator=generator),
    }  # fmt: skip


def test_losses_and_scores_by_hand(example):
    truth, generator = fake_truth(), torch.Generator().manual_seed(5)
    found = {task: torch.randn(3, 4, 4, channels, generator=generator) for task, (channels, _) in example.network.TASKS.items()}
    weights = example.network.edge_weights(truth["edges"])
    share = truth["edges"].float().mean().item()
    assert weights == pytest.approx((1 / (2 * (1 - share)), 1 / (2 * share)))
    sums = dict.fromkeys(found, 0.0)
    confusion, square, angles, pairs, errors = np.zeros((6, 6)), [], [], [], []
    for at in itertools.product(range(3), range(4), range(4)):
        x = {task: t[at].double().numpy() for task, t in found.items()}
        label, edge = int(truth["segmentation"][at]), int(truth["edges"][at])
        sums["segmentation"] += math.log(sum(math.exp(v) for v in x["segmentation"])) - x["segmentation"][label]
        confusion[label, int(np.argmax(x["segmentation"]))] += 1
        logit = x["edges"][0]
        sums["edges"] += weights[edge] * math.log1p(math.exp(-logit if edge else logit))
        pairs.append((int(1000 / (1 + math.exp(-logit))), edge))
        sums["reshading"] += abs(x["reshading"][0] - float(truth["reshading"][at]))
        errors.append(abs(x["reshading"][0] - float(truth["reshading"][at])))
        if at == (0, 0, 0):
            continue
        depth, normal = float(truth["depth"][at]), truth["normals"][at].double().numpy()
        sums["depth"] += abs(x["depth"][0] - math.log(depth / 8))
        square.append((8 * math.exp(x["depth"][0]) - depth) ** 2)
        cosine = x["normals"] @ normal / np.linalg.norm(x["normals"])
        sums["normals"] += 1 - cosine
        angles.append(math.degrees(math.acos(cosine / np.linalg.norm(normal))))
    for task, x in found.items():
        loss = float(example.network.loss_of(task, x, truth, weights))
        assert loss == pytest.approx(sums[task] / 48, rel=1e-4), task
    f1 = 0.0
    for threshold in range(1001):
        hits = sum(edge for place, edge in pairs if place >= threshold)
        called = sum(place >= threshold for place, _ in pairs)
        f1 = max(f1, 2 * hits / (called + sum(edge for _, edge in pairs)))
    both = confusion.diagonal()
    expected = {
        "segmentation_miou": np.mean(both / (confusion.sum(0) + confusion.sum(1) - both)), "depth_rmse": math.sqrt(np.mean(square)),
        "normals_angle": np.mean(angles), "edges_f1": f1, "reshading_l1": np.mean(errors),
    }  # fmt: skip
    scores = example.network.Scores(tuple(found), "cpu")
    for part in (slice(0, 1), slice(1, 3)):
        scores.add([x[part] for x in found.values()], {name: t[part] for name, t in truth.items()})
    assert scores.named() == pytest.approx(expected, rel=1e-5)


def test_training_resumes_with_the_same_bits(example, tmp_path):
    data = {**fake_truth(10, 8), "rgb": torch.rand(10, 8, 8, 3, generator=torch.Generator().manual_seed(6))}
    training = {**example.train.TRAINING, "epochs": 3, "batch": 4, "warmup": 2}
    sizes = {"size": 8, "width": 8, "inner": 8, "decoder_inner": 8}

    class Stops:
        def __init__(self, looks):
            self.looks = looks

        def __bool__(self):
            self.looks -= 1
            return self.looks < 0

    def run(out, limits):
        out.mkdir()
        for limit in limits:
            model = example.network.initialize(example.train.make("shared", "rapt", sizes), 1)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
            progress = {"epoch": 0, "step": 0, "seconds": 0.0, "metrics": []}
            if (out / "state.pt").exists():
                state = torch.load(out / "state.pt", weights_only=True)
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
                progress = state["progress"]
            done = example.train.train(model, optimizer, data, data, training, 1, out, progress, Stops(limit), lambda text: None)
        assert done and len(progress["metrics"]) == 3
        return model, progress["metrics"]

    whole, parts = run(tmp_path / "whole", [9]), run(tmp_path / "parts", [1, 1, 9])
    assert all(torch.equal(a, b) for a, b in zip(whole[0].parameters(), parts[0].parameters()))
    assert [line["loss"] for line in whole[1]] == [line["loss"] for line in parts[1]]
    assert whole[1][2]["loss"] < whole[1][0]["loss"] and "edges_f1" in whole[1][2]


def results_of(example, directory, numbers):
    """numbers: {variant: [scores of each seed]}, each a dictionary."""
    for variant, seeds in numbers.items():
        for seed, scores in enumerate(seeds):
            out = directory / f"{variant}_{seed}"
            out.mkdir(parents=True)
            result = {
                "variant": variant, "seed": seed, "scores": scores, "parameters": 10, "multiply_adds": 10**6, "seconds": 2.0,
                "data": example.train.DATA, "training": example.train.TRAINING, "command": "python train.py", "date": "2026-01-02",
                "machine": {"device": "abacus", "torch": "2"},
            }  # fmt: skip
            (out / "result.json").write_text(json.dumps(result))


def test_comparison_tells_effects_from_chance(example, tmp_path, capsys):
    base = {"segmentation_miou": 0.5, "depth_rmse": 2.0, "normals_angle": 20.0, "edges_f1": 0.6, "reshading_l1": 0.1}
    seeds = lambda **changes: [
        {name: value * (1 + 0.01 * n) * changes.get(name, (1, 1, 1))[n] for name, value in base.items()} for n in range(3)
    ]
    # Segmentation is 10 % better and edges are 5 % worse in every seed; depth is 10 % better, then worse, then the same.
    shared = seeds(segmentation_miou=(1.1, 1.1, 1.11), edges_f1=(0.95, 0.95, 0.94), depth_rmse=(0.9, 1.1, 1.0))
    results_of(example, tmp_path / "runs", {"none": seeds(), "shared": shared})
    example.compare.record(tmp_path / "runs", tmp_path / "scenes.json", ["shared=The intervals say so."])
    stored = json.loads((tmp_path / "scenes.json").read_text())
    claim = stored["claims"][0]
    assert claim["ours"] == "better: segmentation; worse: edges; no difference: depth, normals, reshading"
    assert not claim["holds"] and claim["reason"] == "The intervals say so."
    gains = stored["tables"][1]["rows"][0]
    values = np.array([10.0, 10.0, 11.0])
    assert gains[1] == f"+{values.mean():.2f} ± {4.303 * values.std(ddof=1) / math.sqrt(3):.2f} %"
    assert stored["provenance"][0]["date"] == "2026-01-02"
    example.compare.stored.check(tmp_path / "scenes.json", example.compare.derive)
    stored["claims"][0]["holds"] = True
    (tmp_path / "scenes.json").write_text(json.dumps(stored))
    with pytest.raises(SystemExit, match="claims: expected what follows"):
        example.compare.stored.check(tmp_path / "scenes.json", example.compare.derive)
    with pytest.raises(SystemExit, match="expected one of shared, got 'other'"):
        example.compare.record(tmp_path / "runs", tmp_path / "scenes.json", ["other=x"])


def test_what_is_stored_follows_from_what_was_measured(example):
    path = EXPERIMENTS / "scenes.json"
    if path.exists():
        example.stored.check(path, example.compare.derive)
