# SPDX-License-Identifier: Apache-2.0
"""What one rank has, all have."""
import torch
import torch.distributed as dist

dist.init_process_group("motet")
rank, size = dist.get_rank(), dist.get_world_size()
weights = torch.arange(1000.0) * (rank + 1)
dist.broadcast(weights, src=size - 1)
print(f"rank {rank}: {weights.sum().item():.0f}")
dist.destroy_process_group()
