# SPDX-License-Identifier: Apache-2.0
"""Every rank holds some of the layers; small batches flow through the ranks one after another, forward and backward in turn (1F1B).

    torchrun --nproc-per-node 2 pipeline.py
"""
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.functional import cross_entropy

STEPS, MICROBATCHES = 30, 8


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet")
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images, labels = torch.tensor(digits.data[:1792], dtype=torch.float32) / 16, torch.tensor(digits.target[:1792])

    torch.manual_seed(0)
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    mine = nn.Sequential(*layers[len(layers) * rank // size : len(layers) * (rank + 1) // size])
    stage = PipelineStage(mine, rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=MICROBATCHES, loss_fn=cross_entropy)
    optimizer = torch.optim.Adam(mine.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        losses: list = []
        inputs = (images,) if rank == 0 else ()
        schedule.step(*inputs, target=labels if rank == size - 1 else None, losses=losses)
        optimizer.step()

    if rank == size - 1:
        print(f"{size} ranks: loss {torch.stack(losses).mean().item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
