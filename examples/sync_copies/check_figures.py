"""Checks what sync_copies found, and that a second run prints the same virtual times."""

import json
import subprocess
import sys
import tempfile


def counts(run):
    return run["memcpy"], run["async"], run["sync"]


def copies(run):
    return {(copy["op"], copy["name"]): copy["calls"] for copy in run["copies"]}


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

    with tempfile.NamedTemporaryFile(suffix=".json") as second:
        command = [program, "--device", "sim:rtx2080ti", "--json", second.name]
        report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert json.load(open(second.name, encoding="utf-8")) == figures, "two runs differ in virtual time"
    finding = report.split("Findings", 1)[1].split("###", 1)[0]
    assert "slice" in finding and "main.cpp:" in finding and "DeviceGuard<cpu>" in finding, finding
    print("figures as expected")


if __name__ == "__main__":
    main()
