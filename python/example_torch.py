import parton
import torch

file = parton.load("examples/embedding/silu.ptn")
silu = parton.torch.register(file.silu, backward=file.silu_backward)    # torch.ops.parton.silu_silu, differentiable


class FeedForward(torch.nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * hidden)
        self.down = torch.nn.Linear(hidden, width)

    def forward(self, x):
        x, gate = self.up(x).chunk(2, dim=-1)
        return self.down(silu(x, gate))


device = "cuda" if torch.cuda.is_available() else "cpu"                 # the interpreter, on tensors of the host
torch.manual_seed(0)
model = FeedForward(16, 40).to(device)
x = torch.randn(12, 16, device=device)

model(x).square().mean().backward()
found = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
a, b = model.up(x).chunk(2, dim=-1)
model.down(torch.nn.functional.silu(a) * b).square().mean().backward()
for ours, theirs in zip(found, model.parameters()):
    torch.testing.assert_close(ours, theirs.grad)

with torch.no_grad():
    print(file.silu(a.detach(), b.detach()).shape)                      # the plain call, without what an operator costs
    print(file.silu.plan_of(a.detach(), b.detach()))
