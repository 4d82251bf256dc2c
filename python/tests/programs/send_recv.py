# SPDX-License-Identifier: Apache-2.0
"""A tensor goes round in a ring; each rank adds one."""
import torch
import torch.distributed as dist

dist.init_process_group("motet")
rank, size = dist.get_rank(), dist.get_world_size()
token = torch.zeros(3)
if rank == 0:
    dist.send(token, 1)
    dist.recv(token, size - 1)
    print("token", token.tolist())
else:
    dist.recv(token, rank - 1)
    dist.send(token + 1, (rank + 1) % size)
dist.destroy_process_group()
