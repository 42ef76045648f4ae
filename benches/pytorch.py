"""The workloads of `lmc bench` in PyTorch, with the same shapes, batch and thread count.

    pip install torch
    python benches/pytorch.py [--threads 2] [--seconds 1.0] [--only w1,w2] [--json]

Prints milliseconds (median) per workload and mode. `benches/compare_pytorch.py` runs this and `lmc bench`
by turns and prints the ratios.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

BATCH, CHANNELS, CLASSES = 64, 64, 10
SIDES = [32, 17, 9, 5]  # of the inputs of the four layers


class Module(nn.Module):
    """One local module: a functional part and, if `decoder`, a decoder that reconstructs its input from its output."""

    def __init__(self, inputs, side, decoder):
        super().__init__()
        self.functional = nn.Sequential(
            nn.Conv2d(inputs, CHANNELS, 3, padding=2), nn.BatchNorm2d(CHANNELS), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.decoder = None
        if decoder:
            self.decoder = nn.Sequential(
                nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, stride=2, padding=2),
                nn.BatchNorm2d(CHANNELS),
                nn.ReLU(),
                nn.ConvTranspose2d(CHANNELS, inputs, 3 if side % 2 == 0 else 4),
                nn.Sigmoid(),
            )

    def freeze(self):
        self.eval()
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def losses(self, output, target):
        """Reconstruction loss of each sample; gradients reach the decoder only."""
        difference = self.decoder(output.detach()) - target.detach()
        return difference.square().flatten(1).mean(1)


class Network(nn.Module):
    """Four layers of modules and a linear head. Of several modules in a layer, all but the last are frozen."""

    def __init__(self, modules, decoders):
        super().__init__()
        shapes = zip([3, CHANNELS, CHANNELS, CHANNELS], SIDES)
        self.layers = nn.ModuleList(
            nn.ModuleList(Module(inputs, side, decoders) for _ in range(modules)) for inputs, side in shapes
        )
        self.head = nn.Linear(CHANNELS * 9, CLASSES)
        self.decoders = decoders
        self.frozen = [module for layer in self.layers for module in layer[:-1]]
        for module in self.frozen:
            module.freeze()

    def freeze(self):
        self.eval()
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def forward(self, x):
        structural = 0.0
        for layer in self.layers:
            outputs = [module.functional(x) for module in layer]
            if self.decoders:
                losses = []
                for module, output in zip(layer, outputs):
                    if module.training:
                        losses.append(module.losses(output, x))
                        structural = structural + losses[-1].mean()
                    else:
                        with torch.no_grad():
                            losses.append(module.losses(output, x))
                weights = torch.softmax(-torch.stack([loss.detach() for loss in losses]).log(), dim=0)
            else:
                weights = torch.full((len(layer), x.shape[0]), 1.0 / len(layer))
            if len(outputs) == 1:
                x = outputs[0]
            else:
                x = sum(w.view(-1, 1, 1, 1) * output for w, output in zip(weights, outputs))
        return self.head(x.flatten(1)), structural


def train_step(network):
    images, labels = torch.rand(BATCH, 3, 32, 32), torch.arange(BATCH) % CLASSES
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], weight_decay=1e-3)

    def step():
        logits, structural = network(images)
        loss = F.cross_entropy(logits, labels) + 10.0 * structural
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def forward(network, images):
    network.freeze()
    images = torch.rand(images, 3, 32, 32)

    def step():
        with torch.no_grad():
            network(images)

    return step


WORKLOADS = {
    "w1": (1, False),
    "w2": (1, True),
    "w3": (6, False),
    "w3s": (6, True),
}


def cases():
    for name, (modules, decoders) in WORKLOADS.items():
        yield name, "train", lambda m=modules, d=decoders: train_step(Network(m, d))
        yield name, "forward", lambda m=modules, d=decoders: forward(Network(m, d), BATCH)
    yield "single", "forward", lambda: forward(Network(1, True), 1)


def median_ms(step, seconds):
    step(), step()
    times, start = [], time.perf_counter()
    while len(times) < 3 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        times.append((time.perf_counter() - before) * 1e3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0, help="measured time per workload and mode")
    parser.add_argument("--only", default="", help="names of workloads, by commas")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    results = []
    for workload, mode, make in cases():
        if not arguments.only or workload in arguments.only.split(","):
            ms = median_ms(make(), arguments.seconds)
            results.append({"workload": workload, "mode": mode, "ms": ms})
            if not arguments.json:
                print(f"{workload:7} {mode:8} {ms:9.2f} ms")
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "threads": arguments.threads, "results": results}))


if __name__ == "__main__":
    main()
