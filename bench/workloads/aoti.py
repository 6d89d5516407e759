"""Makes the program of aoti.cpp and its model: aoti.py FOLDER. Nothing is made anew that is there."""

import shutil
import subprocess
import sys
from pathlib import Path

TITLE = "AOTInductor in C++"
SOURCE = Path(__file__).with_suffix(".cpp")


def make_program(torch, program):
    from torch.utils import cpp_extension

    compiler = shutil.which("g++") or shutil.which("c++")
    if not compiler:
        sys.exit("there is no C++ compiler")
    folders = [*cpp_extension.include_paths("cuda"), *cpp_extension.include_paths()]
    libraries = Path(torch.__file__).parent / "lib"
    command = [compiler, "-std=c++17", "-O1", "-o", str(program), str(SOURCE), f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command += [f"-I{folder}" for folder in dict.fromkeys(folders)]
    command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-ltorch_cuda", "-lc10", "-lc10_cuda"]
    subprocess.run(command, check=True)


def make_model(torch, package):
    from inference import model_of

    with torch.no_grad():
        program = torch.export.export(model_of(torch, 1024, 8), (torch.randn(256, 1024, device="cuda"),))
        torch._inductor.aoti_compile_and_package(program, package_path=str(package))


def main(folder):
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    program, package = folder / "aoti", folder / "perceptron.pt2"
    if not package.is_file():
        make_model(torch, package)
    if not program.is_file():
        make_program(torch, program)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
