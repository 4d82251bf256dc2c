# SPDX-License-Identifier: Apache-2.0
"""The mean loss, on rank 0 alone; the others keep theirs."""
import torch
import torch.distributed as dist

dist.init_process_group("motet")
rank, size = dist.get_rank(), dist.get_world_size()
loss = torch.tensor(0.5 + rank)
dist.reduce(loss, dst=0)
if rank == 0:
    loss /= size
print(f"rank {rank}: loss {loss.item()}")
dist.destroy_process_group()
