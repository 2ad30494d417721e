"""Trains one network on scenes: python train.py --variant shared --seed 1 --data SCENES --out RUN [--resume] [--minutes 8]

Variants:
    pretrain             segmentation alone, on scenes of its own and for longer: its encoder is where all others begin
    single:TASK          a network for one task
    none                 all five tasks, each with attention of its own
    shared               all five tasks, one attention map for all
    shared_parameters    shared, with feed-forward layers of the decoders so wide that it has as many parameters as `none`
    shared_compute       the same until it needs as many multiply-adds as `none`

RUN gets metrics.jsonl, state.pt after each epoch, and at the end result.json with the test scores of the last epoch.
"""

import argparse
import datetime
import json
import pathlib
import sys
import time

import torch

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]

import network  # noqa: E402
import render  # noqa: E402
from pieces import Stop, machine, rate_at, write_atomically, write_text  # noqa: E402

TRAINING = {"rate": 2e-3, "schedule": "cosine", "warmup": 150, "weight_decay": 0.05, "epochs": 30, "batch": 64, "clip": 1.0}
DATA = {"train": 10_000, "test": 2_000, "size": 32, "samples": 2, "data_seed": 1}
PARTS = {"train": 0, "test": 2, "pretrain": 3}  # as the tool numbers them; 3 is a part that it does not use


def scenes(part, count, data, directory, device):
    """Rendered scenes on the device; kept in a file, so that runs beside each other render once."""
    path = pathlib.Path(directory) / f"{part}_{count}_{data['size']}_{data['samples']}_{data['data_seed']}.pt"
    if path.exists():
        return torch.load(path, map_location=device, weights_only=True)
    found = render.render(
        data["data_seed"], PARTS[part], 0, count, data["size"], data["samples"], device, 512 if device.type == "cuda" else 32
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: torch.save({name: t.cpu() for name, t in found.items()}, file))
    return found


def nearest_inner(make, wanted, count):
    """The width of the decoders' feed-forward layers with which count(make(width)) comes nearest to what is wanted."""
    low, high = 1, 4096
    while low < high:  # the count grows with the width
        middle = (low + high) // 2
        low, high = (middle + 1, high) if count(make(middle)) < wanted else (low, middle)
    return min((low - 1, low), key=lambda inner: abs(count(make(max(1, inner))) - wanted))


def make(variant, implementation, sizes=None):
    sizes = dict(sizes or {})
    if variant == "pretrain":
        return network.Network(("segmentation",), "none", implementation, **sizes)
    if variant.startswith("single:"):
        task = variant.partition(":")[2]
        if task not in network.TASKS:
            raise SystemExit(f"variant: expected one of {', '.join(network.TASKS)} after 'single:', got '{task}'")
        return network.Network((task,), "none", implementation, **sizes)
    if variant in ("none", "shared"):
        return network.Network(sharing=variant, implementation=implementation, **sizes)
    measures = {"shared_parameters": network.Network.parameter_count, "shared_compute": network.Network.multiply_adds}
    if variant not in measures:
        raise SystemExit(f"variant: expected pretrain, single:TASK, none, shared, {', '.join(measures)}, got '{variant}'")
    # Built without numbers: only the shapes count.
    with torch.device("meta"):
        other = lambda inner: network.Network(sharing="shared", implementation="plain", **{**sizes, "decoder_inner": inner})
        wanted = measures[variant](network.Network(sharing="none", implementation="plain", **sizes))
        inner = nearest_inner(other, wanted, measures[variant])
    return network.Network(sharing="shared", implementation=implementation, **{**sizes, "decoder_inner": inner})


def load_encoder(model, path):
    state = torch.load(path, map_location="cpu", weights_only=True)["model"]
    model.encoder.load_state_dict(
        {name.removeprefix("encoder."): value for name, value in state.items() if name.startswith("encoder.")}
    )


def batches(data, size, seed, epoch):
    count, device = len(data["rgb"]), data["rgb"].device
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch)).to(device)
    for at in range(0, count, size):
        chosen = order[at : at + size]
        yield {name: t[chosen] for name, t in data.items()}


@torch.no_grad()
def score(model, data, size=256):
    found = network.Scores(model.tasks, data["rgb"].device)
    for at in range(0, len(data["rgb"]), size):
        truth = {name: t[at : at + size] for name, t in data.items()}
        found.add(model(truth["rgb"]), truth)
    return found.named()


def train(model, optimizer, train_data, test_data, training, seed, out, progress, stop, say=print, call=None):
    """progress: {epoch, step, seconds, metrics}; call: the model, compiled. Whether all epochs are done."""
    call = call or model
    weights = network.edge_weights(train_data["edges"])
    steps = -(-len(train_data["rgb"]) // training["batch"])
    total = training["epochs"] * steps
    wait = torch.cuda.synchronize if train_data["rgb"].is_cuda else lambda: None
    while progress["epoch"] < training["epochs"]:
        if stop:
            return False
        began, sums = time.monotonic(), 0.0
        for truth in batches(train_data, training["batch"], seed, progress["epoch"]):
            progress["step"] += 1
            for group in optimizer.param_groups:
                group["lr"] = rate_at(training, progress["step"], total)
            loss = network.total_loss(model.tasks, call(truth["rgb"]), truth, weights)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), training["clip"])
            optimizer.step()
            sums = sums + loss.detach()
        wait()
        progress["epoch"] += 1
        progress["seconds"] += time.monotonic() - began
        line = {"epoch": progress["epoch"], "loss": float(sums) / steps, "seconds": progress["seconds"]}
        if progress["epoch"] % 5 == 0 or progress["epoch"] == training["epochs"]:
            line.update(score(model, test_data))
        progress["metrics"].append(line)
        say(f"epoch {line['epoch']} of {training['epochs']}, loss {line['loss']:.4f}, {progress['seconds']:.0f} s")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "progress": progress}
        write_atomically(out / "state.pt", lambda file, state=state: torch.save(state, file))
        write_text(out / "metrics.jsonl", "".join(json.dumps(one) + "\n" for one in progress["metrics"]))
    return True


def add_settings(parser):
    for known in (TRAINING, DATA, network.SIZES):
        for name, value in known.items():
            if "--" + name not in parser._option_string_actions:
                parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--attention", choices=("rapt", "plain"), default="rapt")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backbone", type=pathlib.Path, help="the run whose encoder this one begins with")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="directory for the rendered scenes")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile with CUDA graphs; for --attention plain on a GPU")
    add_settings(parser)
    given = parser.parse_args()
    chosen = lambda known: {name: value if getattr(given, name) is None else getattr(given, name) for name, value in known.items()}
    training, data, sizes = chosen(TRAINING), chosen(DATA), chosen(network.SIZES)
    device, stop = torch.device(given.device), Stop(given.minutes)
    model = network.initialize(make(given.variant, given.attention, sizes), given.seed)
    if given.backbone:
        load_encoder(model, given.backbone / "state.pt")
    model.to(device)
    decays = lambda p: p.dim() >= 2
    groups = [
        {"params": [p for p in model.parameters() if decays(p)], "weight_decay": training["weight_decay"]},
        {"params": [p for p in model.parameters() if not decays(p)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=training["rate"], fused=device.type == "cuda")
    given.out.mkdir(parents=True, exist_ok=True)
    about = {
        "variant": given.variant, "attention": given.attention, "seed": given.seed, "training": training, "data": data, "sizes": model.sizes,
        "parameters": model.parameter_count(), "multiply_adds": model.multiply_adds(), "pretrained": given.backbone is not None,
    }  # fmt: skip
    progress = {"epoch": 0, "step": 0, "seconds": 0.0, "metrics": []}
    state = given.out / "state.pt"
    if state.exists():
        if not given.resume:
            raise SystemExit(f"{given.out}: expected a new directory or --resume, got one with a run")
        before = json.loads((given.out / "config.json").read_text())
        changed = [key for key in ("variant", "seed", "training", "data", "sizes") if before[key] != about[key]]
        if changed:
            raise SystemExit(f"resume: {changed[0]}: expected {before[changed[0]]} as the run began, got {about[changed[0]]}")
        kept = torch.load(state, map_location=device, weights_only=True)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        progress = kept["progress"]
    about["command"] = " ".join(["python", "examples/python/scenes/train.py", *sys.argv[1:]])
    about.update(machine=machine(device), date=datetime.date.today().isoformat())
    write_text(given.out / "config.json", json.dumps(about, indent=1) + "\n")
    train_data = scenes("pretrain" if given.variant == "pretrain" else "train", data["train"], data, given.cache, device)
    test_data = scenes("test", data["test"], data, given.cache, device)
    say = lambda text: print(f"{given.variant} seed {given.seed}: {text}", flush=True)
    call = torch.compile(model, mode="reduce-overhead") if given.compile else None
    torch.backends.cuda.matmul.allow_tf32 = True
    if not train(model, optimizer, train_data, test_data, training, given.seed, given.out, progress, stop, say, call):
        return say("stopped; --resume goes on")
    scores = {name: progress["metrics"][-1][name] for name in (network.SCORES[task] for task in model.tasks)}
    write_text(given.out / "result.json", json.dumps({**about, "scores": scores, "seconds": progress["seconds"]}, indent=1) + "\n")
    say(", ".join(f"{name} {value:.4f}" for name, value in scores.items()))


if __name__ == "__main__":
    main()
