# SPDX-License-Identifier: Apache-2.0
"""Data parallel, but each rank keeps the optimizer's state of its share of the parameters only (ZeRO, stage 1).

    torchrun --nproc-per-node 2 zero.py
"""
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

STEPS = 50


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet")
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images, labels = torch.tensor(digits.data[:1776], dtype=torch.float32) / 16, torch.tensor(digits.target[:1776])

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(model(images[rank::size]), labels[rank::size])
        loss.backward()
        optimizer.step()

    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    if rank == 0:
        state = sum(value.numel() for values in optimizer.optim.state.values() for value in values.values())
        print(f"{size} ranks: {state} numbers of state here, loss {mean.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
