# SPDX-License-Identifier: Apache-2.0
"""Every rank gets what every rank has, as a list."""
import torch
import torch.distributed as dist

dist.init_process_group("motet")
rank, size = dist.get_rank(), dist.get_world_size()
predictions = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
dist.all_gather(predictions, torch.tensor([rank, rank * rank]))
print(torch.stack(predictions).tolist())
dist.destroy_process_group()
