"""A layer's own kernel reads one row past its weight: the report names the module's parameter, and the row."""

from shared import launch, tl, torch, triton


@triton.jit
def k_row(weight, out, row, width, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(weight + row * width + i, mask=i < width)  # FAULT
    tl.store(out + i, v, mask=i < width)


class Lookup(torch.nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(rows, width))

    def forward(self, row):
        rows, width = self.weight.shape
        out = torch.empty(width, device="cuda")
        k_row[(1,)](self.weight, out, row, width, BLOCK=128)
        return out


model = torch.nn.Sequential(torch.nn.Linear(4, 4), Lookup(100, 96)).cuda()
optimizer = torch.optim.Adam(model.parameters())
model[1](99)
torch.cuda.synchronize()
launch()
model[1](100)  # the bug: rows count from 0
torch.cuda.synchronize()  # RAISES
print("not reached")
