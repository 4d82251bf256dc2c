# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits, data parallel.

    torchrun --nproc-per-node 2 ddp_digits.py
"""
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

EPOCHS, BATCH = 5, 96


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet")
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    data = TensorDataset(images, labels)
    sampler = DistributedSampler(data, drop_last=True)
    loader = DataLoader(data, batch_size=BATCH // size, sampler=sampler, drop_last=True)

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()

    if rank == 0:
        with torch.no_grad():
            scores = model.module(images)
        right = (scores.argmax(1) == labels).float().mean().item()
        print(f"{size} ranks: {100 * right:.1f} % right, loss {cross_entropy(scores, labels).item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
