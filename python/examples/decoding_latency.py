# SPDX-License-Identifier: Apache-2.0
"""What tensor parallelism costs a language model that writes: two all-reduces of bfloat16 for each layer and token, one after another.

    torchrun --nproc-per-node 2 decoding_latency.py [--backend gloo] [--layers 32] [--hidden 4096] [--tokens 100]

The columns: sequences that are written at once, bytes of an all-reduce, microseconds of one, milliseconds of all of a token.
"""
import argparse
import time

import torch
import torch.distributed as dist


def milliseconds_per_token(x: torch.Tensor, layers: int, tokens: int) -> float:
    """The median over tokens of the slowest rank."""
    times = torch.zeros(tokens)
    for token in range(tokens):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(2 * layers):
            dist.all_reduce(x)
        times[token] = time.perf_counter() - start
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return 1e3 * times.median().item()


def main() -> None:
    parser = argparse.ArgumentParser(description="all-reduces as in decoding with tensor parallelism")
    parser.add_argument("--backend", default="motet")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    if dist.get_rank() == 0:
        print(f"# {given.backend}, {dist.get_world_size()} ranks, {given.layers} layers of {given.hidden}")
        print("sequences   bytes  us/all-reduce  ms/token")
    for sequences in (1, 2, 4, 8):
        x = torch.zeros(sequences, given.hidden, dtype=torch.bfloat16)
        ms = milliseconds_per_token(x, given.layers, given.tokens)
        if dist.get_rank() == 0:
            print(f"{sequences:9} {2 * x.numel():7} {1e3 * ms / (2 * given.layers):14.1f} {ms:9.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
