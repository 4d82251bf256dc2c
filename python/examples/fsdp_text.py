# SPDX-License-Identifier: Apache-2.0
"""A small transformer learns Python's own manual, letter by letter; its parameters, gradients and optimizer are sharded (FSDP2).

    torchrun --nproc-per-node 2 fsdp_text.py
"""
import torch
import torch.distributed as dist
from pydoc_data.topics import topics
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

STEPS, BATCH, LENGTH, WIDTH = 20, 24, 64, 64


class Writer(nn.Module):
    """Guesses the next letter."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(128, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True) for _ in range(2))
        self.guess = nn.Linear(WIDTH, 128)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.letters(text) + self.places(torch.arange(text.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.guess(x.flatten(0, 1))


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("motet")
    rank, size = dist.get_rank(), dist.get_world_size()
    text = torch.tensor(list("".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")))

    torch.manual_seed(0)
    model = Writer()
    mesh = init_device_mesh("cpu", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    for step in range(STEPS):
        starts = torch.randint(len(text) - LENGTH, (BATCH,), generator=torch.Generator().manual_seed(step))[rank::size]
        batch = torch.stack([text[start : start + LENGTH + 1] for start in starts])
        optimizer.zero_grad()
        loss = cross_entropy(model(batch[:, :-1]), batch[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    if rank == 0:
        mine, whole = (sum(count(p) for p in model.parameters()) for count in (lambda p: p.to_local().numel(), lambda p: p.numel()))
        print(f"{size} ranks: {mine} of {whole} parameters here, loss {mean.item():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
