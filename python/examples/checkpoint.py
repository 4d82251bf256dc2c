# SPDX-License-Identifier: Apache-2.0
"""Trains up to a step and saves; run again, also on another number of ranks, it goes on where it stopped (FSDP2 and DCP).

    torchrun --nproc-per-node 2 checkpoint.py /tmp/digits 20
    torchrun --nproc-per-node 3 checkpoint.py /tmp/digits 40
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

BATCH = 96


def main(folder: str, last_step: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet")
    rank, size = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    step = torch.tensor(0)
    if os.path.exists(os.path.join(folder, ".metadata")):
        weights, moments = get_state_dict(model, optimizer)
        saved = {"model": weights, "optimizer": moments, "step": step}
        dcp.load(saved, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        step = saved["step"]
    first_step = int(step)

    for number in range(first_step, last_step):
        batch = torch.randperm(len(images), generator=torch.Generator().manual_seed(number))[:BATCH][rank::size]
        optimizer.zero_grad()
        cross_entropy(model(images[batch]), labels[batch]).backward()
        optimizer.step()

    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "step": torch.tensor(last_step)}, checkpoint_id=folder)
    with torch.no_grad():
        loss = cross_entropy(model(images), labels)
    if rank == 0:
        print(f"{size} ranks: steps {first_step} to {last_step}, loss {loss.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
