"""README.md holds the options as the program prints them: readme_options.py check | write, in the top folder."""
import pathlib, re, subprocess, sys

file = pathlib.Path("README.md")
text = file.read_text()
table = subprocess.run(["build/bin/cufence", "options"], check=True, capture_output=True, text=True).stdout
table = "".join(line.rstrip() + "\n" for line in table.splitlines())
fresh = re.sub(r"(<!-- options: begin -->\n).*?(<!-- options: end -->)", lambda m: f"{m[1]}```\n{table}```\n{m[2]}", text, flags=re.S)
if sys.argv[1] == "write":
    file.write_text(fresh)
elif fresh != text:
    sys.exit("README.md lists other options than `cufence options`; ./dev format writes them anew")
