"""Makes the C++ program of docs/examples/aoti and its model `activation`: aoti_overrun.py FOLDER. The model's Triton kernel reads past
1000 floats; 1024 are right."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

EXAMPLE = Path(__file__).resolve().parents[3] / "docs" / "examples" / "aoti"
folder = Path(sys.argv[1])
sys.path.insert(0, str(EXAMPLE))
import compile_models  # noqa: E402

settings = [f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}", "-DCMAKE_DISABLE_FIND_PACKAGE_cufence=ON",
            f"-DCUFENCE_LIBRARY={os.environ['CUFENCE_LIBRARY']}", f"-DCMAKE_CUDA_COMPILER={shutil.which('nvcc') or 'nvcc'}"]  # fmt: skip
variables = {"TORCH_CUDA_ARCH_LIST": "9.0", **os.environ}  # libtorch's CMake files ask for it
subprocess.run(["cmake", "-S", EXAMPLE, "-B", folder / "build", *settings], env=variables, check=True)
subprocess.run(["cmake", "--build", folder / "build"], env=variables, check=True)
if not (folder / "activation.pt2").is_file():
    compile_models.compile_model(compile_models.Activation(), None, folder / "activation.pt2")
