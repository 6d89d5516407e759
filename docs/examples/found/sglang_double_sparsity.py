import torch
from sglang.srt.layers.attention.triton_ops.double_sparsity_attention import flash_decode_sparse_attention_fwd
f = lambda *s: torch.randn(*s, device="cuda", dtype=torch.float16)
table = torch.arange(80, device="cuda", dtype=torch.int32).reshape(2, 40)
lengths = torch.full((2,), 40, device="cuda", dtype=torch.int32)
args = f(2, 2, 64), f(80, 2, 64), f(80, 2, 64), f(2, 2, 64), f(2, 2, 16), f(80, 2, 16)
flash_decode_sparse_attention_fwd(*args, table, lengths, 40, 0.125, 0.0, heavy_token_num=32)
