# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel: buckets of 25 and of 100 MB give the same sums, and all ranks the same weights."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("motet")
rank, size = dist.get_rank(), dist.get_world_size()
losses, weights = [], []
for cap_mb in (25, 100):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 2500), nn.ReLU(), nn.Linear(2500, 2500), nn.ReLU(), nn.Linear(2500, 10))  # 26 MB
    model = DistributedDataParallel(model, bucket_cap_mb=cap_mb, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(24, 64)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(x[rank::size]).square().mean()
        loss.backward()
        optimizer.step()
    losses.append(f"{loss.item():.6f}")
    weights.append(f"{sum(parameter.double().abs().sum().item() for parameter in model.parameters()):.9f}")
print(f"rank {rank}: losses {' '.join(losses)} weights {' '.join(weights)}")
dist.destroy_process_group()
