"""docs/options.md holds the options as the program prints them: options.py check | write, in the top folder."""
import pathlib, re, subprocess, sys

PAGE = pathlib.Path("docs/options.md")
GROUPS = {  # the heading above each of these options
    "uaf": "What faults",
    "on_fault": "After a fault",
    "guard": "Address space and memory",
    "history": "What is remembered for reports",
    "streams": "What else is found",
    "exit_wait": "How a fault is explained",
    "peers": "Several devices, several processes",
    "only": "Which buffers are guarded",
    "usr1": "Use of memory",
    "color": "Where reports go",
    "save": "Faults to launch again",
    "save_values": "Values",
}
HEAD = "\n| option | allowed | default | |\n|---|---|---|---|\n"

table = subprocess.run(["build/bin/cufence", "options"], check=True, capture_output=True, text=True).stdout
head, *lines = table.splitlines()
allowed, default = head.index("allowed"), head.index("default")
text, missing = "", set(GROUPS)
for line in lines:
    key = line[:allowed].strip()
    if key in GROUPS:
        missing.remove(key)
        text += f"\n## {GROUPS[key]}\n{HEAD}"
    value, _, meaning = line[default:].partition("  ") if line[default] != " " else ("", "", line[default:])
    plain = [re.sub(r"([|*<>_\[\]])", r"\\\1", cell.strip()) for cell in (line[allowed:default], meaning)]
    plain[1] = re.sub(r"docs/(\w+\.md)", r"[\1](\1)", plain[1])
    text += f"| `{key}` | {plain[0]} | {value and f'`{value}`'} | {plain[1]} |\n"
assert not missing, f"GROUPS names what is no option: {missing}"

page = PAGE.read_text()
fresh = re.sub(r"(<!-- options: begin -->\n).*?(\n<!-- options: end -->)", lambda m: m[1] + text + m[2], page, flags=re.S)
if sys.argv[1] == "write":
    PAGE.write_text(fresh)
elif fresh != page:
    sys.exit(f"{PAGE} lists other options than `cufence options`; ./dev format writes them anew")
