"""What `cufence doctor` asks of python3, with its version: a JSON list of findings. Imports only cufence: PyTorch takes seconds."""

import importlib.metadata
import json
import os
import re
import sys

TORCH = range(11, 16)  # of PyTorch 2, those with an allocator of cufence's own
found = []


def say(check, mark, detail, remedy=None):
    found.append({"check": check, "found": mark, "detail": detail, **({"remedy": remedy} if remedy else {})})


say("python3", "yes", f"{sys.version.split()[0]}, {sys.executable}")
try:
    torch = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    torch = None
missing = "no" if torch else "none"
try:
    import cufence

    say("cufence package", "yes", f"{cufence.__version__}, {os.path.dirname(cufence.__file__)}")
    if cufence.__version__ != sys.argv[1]:
        say("cufence package", "no", f"it is version {cufence.__version__}, this program is {sys.argv[1]}", "install both from one source")
except Exception as error:
    say("cufence package", missing, f"cannot be imported: {type(error).__name__}: {error}", "pip install it for backend:cufence")
if any(os.path.exists(os.path.join(folder, "cufence-startup.pth")) for folder in sys.path):
    say("start-up hook", "yes", "cufence-startup.pth is in place: backend:cufence is enough")
else:
    say("start-up hook", missing, "no cufence-startup.pth: backend:cufence would not be understood", "pip install cufence there")
minor = re.match(r"2\.(\d+)\.", torch or "")
if not torch:
    say("PyTorch", "none", "not installed")
elif "+cpu" in torch:
    say("PyTorch", "no", f"{torch}, built without CUDA", "install a CUDA build: https://pytorch.org/get-started")
elif minor and int(minor[1]) in TORCH:
    say("PyTorch", "yes", torch)
else:
    say("PyTorch", "no", f"{torch}: its back end cudaMallocAsync is taken", "use 2.11 to 2.15")
print(json.dumps(found))
