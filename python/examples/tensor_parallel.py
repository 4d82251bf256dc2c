# SPDX-License-Identifier: Apache-2.0
"""Every rank holds a part of every layer: the first by columns, the second by rows, one all-reduce for both.

    torchrun --nproc-per-node 2 tensor_parallel.py
"""
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy

STEPS = 50


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet")
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    mesh = init_device_mesh("cpu", (size,))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    if rank == 0:
        part = tuple(model[0].weight.to_local().shape)
        print(f"{size} ranks: weights {part} of {tuple(model[0].weight.shape)} here, loss {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
