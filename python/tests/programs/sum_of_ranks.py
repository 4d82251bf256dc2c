# SPDX-License-Identifier: Apache-2.0
"""1 + 2 + ... over all ranks."""
import torch
import torch.distributed as dist

dist.init_process_group("motet")
x = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(x)
print(f"sum {x.item()}")
dist.destroy_process_group()
