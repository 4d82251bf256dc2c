# SPDX-License-Identifier: Apache-2.0
"""A program that asks for Gloo by name, also beside another backend and for a group of some ranks."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
cpu = torch.device("cpu")
groups = [dist.group.WORLD, dist.new_group(list(range(size)), backend="gloo"), dist.new_group(list(range(size)), backend="cpu:gloo")]
for group in groups:
    x = torch.ones(3, dtype=torch.int16)  # a type that Gloo does not have
    dist.all_reduce(x, group=group)
    print(f"{group._get_backend(cpu).name()} {x.tolist()}")
dist.destroy_process_group()
