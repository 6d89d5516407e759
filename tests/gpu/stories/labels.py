"""Labels: the report says which part of the program the buffer belongs to."""

import cufence

cufence.enable()

from k_oob import k_oob
from shared import launch, torch

with cufence.label("loader"):
    with cufence.label("batch 17"):
        x = torch.zeros(1000, device="cuda")
    y = torch.zeros(1000, device="cuda")
z = torch.zeros(1000, device="cuda")
for tensor, label in ((x, "batch 17"), (y, "loader"), (z, "")):
    found = cufence.describe(tensor)
    assert found["place"] == "inside" and found["offset"] == 0, found
    assert found["buffer"]["size"] == 4000 and found["buffer"]["label"] == label, found
assert cufence.describe(x.data_ptr() + 4000)["place"] == "past end"
assert cufence.stats()["live_buffers"] >= 3
print("described", flush=True)
k_oob[(8,)](x, y, 999, BLOCK=128)
torch.cuda.synchronize()
launch()
k_oob[(8,)](x, y, 1000, BLOCK=128)
try:
    torch.cuda.synchronize()  # RAISES
except RuntimeError:
    assert cufence.wait_reports(5)
    assert cufence.fault_count() >= 1
    assert "k_oob" in (cufence.last_report_text() or "")
    print("reported", flush=True)
    raise
