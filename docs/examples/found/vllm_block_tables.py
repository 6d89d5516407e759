import torch
from vllm.v1.attention.ops.triton_unified_attention import unified_attention
n, length = 4, 40
q = torch.randn(n * length, 2, 64, device="cuda", dtype=torch.float16)
k = torch.randn(16, 16, 2, 64, device="cuda", dtype=torch.float16)
starts = torch.arange(0, n * length + 1, length, device="cuda", dtype=torch.int32)
lengths = torch.full((n,), length, device="cuda", dtype=torch.int32)
table = torch.arange(n * 3, device="cuda", dtype=torch.int32).reshape(n, 3)
unified_attention(q, k, k.clone(), torch.empty_like(q), starts, length, lengths, length, 0.125, True, (-1, -1), table, 0.0, None, None, None)
