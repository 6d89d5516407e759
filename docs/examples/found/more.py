"""Sixteen bugs, each in a function; python more.py NAME runs one."""

import sys
import types


def cupy_argmax():
    from cupyx.scipy.sparse import csr_matrix

    csr_matrix(cp.asarray([[1.0, 2, 3, 4, 0]])).argmax(axis=1)


def cupy_kdtree():
    from cupyx.scipy.spatial import KDTree

    KDTree(cp.asarray([[0.1, 0.1], [0.2, 0.2]]), boxsize=1.0).query(cp.asarray([[0.4, 0.4]]))


def cupy_map_coordinates():
    from cupyx.scipy.ndimage import map_coordinates

    map_coordinates(cp.ones((1, 4)), cp.asarray([[5.0], [0.0]]), order=0, mode="wrap")


def bitsandbytes_dequantize():
    from bitsandbytes.functional import dequantize_4bit, quantize_4bit

    dequantize_4bit(*quantize_4bit(f32(100, 64), blocksize=64, quant_type="nf4"))


def bitsandbytes_ademamix():
    from bitsandbytes.optim import AdEMAMix32bit

    weight = torch.nn.Parameter(f32(4096))
    weight.grad = f32(4096)
    AdEMAMix32bit([weight]).step()


def torchao_bsr():
    from torchao.kernel.bsr_triton_ops import bsr_dense_addmm

    bsr_dense_addmm(bf16(64, 8), bf16(64, 64).to_sparse_bsr((32, 32)), bf16(64, 8))


def torchao_mixed_mm():
    from torchao.prototype.hqq.mixed_mm import triton_mixed_mm

    weight = torch.zeros(64, 72, device="cuda", dtype=torch.uint8)
    triton_mixed_mm(f16(1, 128), weight, f16(2, 72), f16(2, 72), group_size=64)


def flaggems_embedding():
    import flag_gems

    flag_gems.enable()
    index = torch.tensor([1, 2, 3], device="cuda")
    torch.nn.functional.embedding(index, f32(5, 1000).requires_grad_()).sum().backward()


def attorch_gradients():
    from attorch import GELU

    GELU()(f32(7, 33).requires_grad_()).sum().backward()


def lmdeploy_awq():
    from lmdeploy.pytorch.kernels.cuda.awq_kernels import awq_linear

    def packed(*shape):
        return torch.randint(0, 2**31 - 1, shape, device="cuda", dtype=torch.int32)

    awq_linear(f16(5, 128), packed(128, 25), f16(1, 200), packed(1, 25))


def mamba_gate_gradients():
    from mamba_ssm.ops.triton.mamba3.mamba3_siso_bwd import compute_dzdo

    compute_dzdo(*(bf16(2, 33, 3, 40) for _ in range(3)))


def flash_attn_linear():
    # Triton 3 lacks what the module imports to choose configurations.
    sys.modules["triton.ops"] = sys.modules["triton.ops.matmul_perf_model"] = types.SimpleNamespace(
        __path__=[], early_config_prune=lambda configs, *_, **__: configs, estimate_matmul_time=lambda **_: 1.0
    )
    from flash_attn.ops.triton.linear import triton_linear_act

    triton_linear_act(f16(33, 72), f16(200, 72))


def jvp_flash_attention():
    from jvp_flash_attention.jvp_attention import attention

    attention(*(f16(1, 2, 100, 64) for _ in range(3)))


def adasplash():
    from adasplash import adasplash_no_block_mask

    adasplash_no_block_mask(*(bf16(1, 1, 32, 64) for _ in range(3)))


def accelerated_scan():
    from accelerated_scan.scalar import scan

    scan(*(torch.rand(2, 3, 1025, device="cuda", requires_grad=True) for _ in range(2))).sum().backward()


def conch_scaled_gemm():
    from conch.ops.quantization.gemm import scaled_gemm

    a, b = torch.ones(1, 64, device="cuda", dtype=torch.int8), torch.ones(64, 40, device="cuda", dtype=torch.int8)
    scaled_gemm(a, b, torch.ones(1, 1, device="cuda"), torch.ones(1, 40, device="cuda"), torch.float16)


bugs = {name: value for name, value in globals().items() if isinstance(value, types.FunctionType)}
if len(sys.argv) != 2 or sys.argv[1] not in bugs:
    sys.exit("one of: " + " ".join(bugs))
if sys.argv[1].startswith("cupy"):
    import cupy as cp

    cp.cuda.set_allocator(None)
    bugs[sys.argv[1]]()
    cp.cuda.Device().synchronize()
else:
    import torch

    f32, f16, bf16 = (lambda *shape, of=of: torch.randn(*shape, device="cuda", dtype=of) for of in (torch.float32, torch.float16, torch.bfloat16))
    bugs[sys.argv[1]]()
    torch.cuda.synchronize()
