# SPDX-License-Identifier: Apache-2.0
"""Data parallelism by hand: each parameter's gradient is summed and divided."""
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("motet")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
x = torch.randn(24, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    model(x[rank::size]).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= size
    optimizer.step()
print(f"loss {model(x).square().mean().item():.6f}")
dist.destroy_process_group()
