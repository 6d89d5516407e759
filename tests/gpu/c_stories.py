"""Runs build/bin/gpu_* (or those named), prints their cases and writes them as JSON: [{"name", "ok", "detail"}]; ok is null for
a skipped one. Usage, in the top folder: c_stories.py FILE [NAME...]
"""
import glob, json, os, subprocess, sys, tempfile
import xml.etree.ElementTree as xml

cases = []
programs = sys.argv[2:] or [os.path.basename(path) for path in sorted(glob.glob("build/bin/gpu_*"))]
for name in programs:
    program = os.path.join("build", "bin", name)
    if not os.path.exists(program):
        cases.append({"name": name, "ok": False, "detail": f"there is no {program}"})
        continue
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "%g.xml")
        environment = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="xml", CMOCKA_XML_FILE=report)
        try:
            run = subprocess.run([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            status, output = run.returncode, run.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired as error:
            status, output = "timed out", (error.stdout or b"").decode(errors="replace")
        found = 0
        for file in glob.glob(os.path.join(folder, "*.xml")):
            for case in xml.parse(file).getroot().iter("testcase"):
                failure = case.find("failure") if case.find("failure") is not None else case.find("error")
                detail = "skipped" if case.find("skipped") is not None else ""
                if failure is not None:
                    detail = ((failure.text or "") + "\n" + output)[-4000:].strip()
                ok = None if detail == "skipped" else failure is None
                cases.append({"name": f"{name}.{case.get('name')}", "ok": ok, "detail": detail})
                found += 1
        if status == 77 and not found:
            cases.append({"name": name, "ok": None, "detail": output.strip().removeprefix("skipped: ")[-200:]})
        elif not found or (status != 0 and all(c["ok"] is not False for c in cases[-found:])):
            cases.append({"name": name, "ok": False, "detail": f"status {status}\n{output[-4000:]}"})
for case in cases:
    word = {True: "ok", False: "FAILED", None: "skipped"}[case["ok"]]
    print(f"{word:8}{case['name']}" + (": " + case["detail"] if case["detail"] else ""))
with open(sys.argv[1], "w") as file:
    json.dump(cases, file, indent=1)
sys.exit(0 if cases and all(case["ok"] is not False for case in cases) else 1)
