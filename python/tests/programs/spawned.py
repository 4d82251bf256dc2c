# SPDX-License-Identifier: Apache-2.0
"""A program that starts its own ranks. The argument is a free port."""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank: int, size: int) -> None:
    dist.init_process_group("motet", rank=rank, world_size=size)
    x = torch.full((5,), float(rank + 1))
    dist.all_reduce(x)
    if rank == 0:
        print("sum", x.tolist(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = sys.argv[1]
    mp.spawn(work, args=(2,), nprocs=2)
