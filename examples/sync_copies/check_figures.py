"""Checks what sync_copies found, and that a second run prints the same virtual times."""

import json
import os
import re
import subprocess
import sys
import tempfile


def counts(run):
    return run["memcpy"], run["async"], run["sync"]


def copies(run):
    return {(copy["op"], copy["name"]): copy["calls"] for copy in run["copies"]}


def run_under(program, rules):
    """The figures of a run under a placement file."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as placement, tempfile.NamedTemporaryFile() as figures:
        json.dump({"rules": rules}, placement)
        placement.flush()
        subprocess.run([program, "--device", "sim:rtx2080ti", "--json", figures.name], check=True, capture_output=True,
                       env={**os.environ, "FERRY_PLACEMENT": placement.name})
        return json.load(figures)


def check_advice(program, figures, name):
    """The advice for the whole program has the one line, and foretells the time with each line and those above it."""
    before = figures[name]["before"]
    advice = before["advice"]
    scopes = re.findall(r"(DeviceGuard<\w+>) +around (\S+) \((\w+)\), (\d+) calls: ([\d.]+) ms", advice["text"])
    assert len(scopes) == len(advice["rules"]) > 0, advice
    slices = [scope for scope in scopes if scope[2] == "slice"]
    assert len(slices) == 1 and slices[0][0] == "DeviceGuard<cpu>" and slices[0][3] == "10", scopes
    for count, (_, site, op, _, predicted) in enumerate(scopes, 1):
        assert advice["rules"][count - 1] == {"site": site, "op": op, "device": "cpu"}, advice["rules"]
        had = run_under(program, advice["rules"][:count])[name]["before"]["total_ms"]
        assert abs(float(predicted) / had - 1) < 0.05, (name, count, predicted, had)
    assert abs(advice["predicted_ms"] / had - 1) < 0.05 and had <= 1.01 * before["total_ms"], (advice, had)
    return scopes


def check_advice_file(program, rules):
    with tempfile.NamedTemporaryFile(suffix=".json") as placement:
        subprocess.run([program, "--device", "sim:rtx2080ti", "--advise", placement.name], check=True,
                       capture_output=True)
        assert json.load(placement)["rules"] == rules


def main():
    program, figures_file = sys.argv[1:3]
    with open(figures_file, encoding="utf-8") as file:
        figures = json.load(file)
    synchronous, staged = figures["synchronous"], figures["staged"]
    assert counts(synchronous["before"]) == (30, 10, 20), synchronous["before"]
    assert counts(synchronous["after"]) == (10, 10, 0), synchronous["after"]
    assert counts(staged["before"]) == (30, 20, 10), staged["before"]
    assert counts(staged["after"]) == (10, 10, 0), staged["after"]
    before = copies(synchronous["before"])
    assert before[("slice", "GpuMemcpySync:CPU->GPU")] == 10, before
    assert before[("crop", "GpuMemcpySync:GPU->CPU")] == 10, before
    for mode in figures.values():
        saved = mode["before"]["total_ms"] - mode["after"]["total_ms"]
        assert saved > 0, mode
        assert abs(mode["before"]["advised_ms"] / saved - 1) < 0.05, (mode["before"]["advised_ms"], saved)
    check_advice(program, figures, "synchronous")
    # Of the default mode, that line gains most.
    assert check_advice(program, figures, "staged")[0][2] == "slice"
    check_advice_file(program, synchronous["before"]["advice"]["rules"])

    with tempfile.NamedTemporaryFile(suffix=".json") as second:
        command = [program, "--device", "sim:rtx2080ti", "--json", second.name]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert json.load(open(second.name, encoding="utf-8")) == figures, "two runs differ in virtual time"
    finding = report.split("Findings", 1)[1].split("###", 1)[0]
    assert "slice" in finding and "main.cpp:" in finding and "DeviceGuard<cpu>" in finding, finding
    print("figures as expected")


if __name__ == "__main__":
    main()
