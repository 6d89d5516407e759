import torch
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
f = lambda *s: torch.randn(*s, device="cuda")
q, k, gk, v = f(1, 3, 2, 96), f(1, 3, 2, 96), -f(1, 3, 2, 96).abs(), f(1, 3, 2, 64)
fused_recurrent_gated_delta_rule(q, k, v, gk=gk, beta=f(1, 3, 2).sigmoid())
