"""Runs benchmarks/compare.py over workers that answer with known times."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

DRIVER = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "compare.py"

# Answers as benchmarks/worker.h does: TIMES gives nanoseconds a run; each request is noted in the file "requests".
WORKER = """#!{python}
import pathlib, sys
times = {times}
log = open(pathlib.Path(__file__).with_name("requests"), "a")
for line in sys.stdin:
    verb, name, count = line.split()
    print(pathlib.Path(__file__).name, name, count, file=log, flush=True)
    if name in times:
        print(times[name] * int(count), flush=True)
    else:
        print("error no benchmark named " + name, flush=True)
"""


class BenchDriver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def add_worker(self, name, times):
        program = self.folder / name
        program.write_text(WORKER.format(python=sys.executable, times=times), encoding="utf-8")
        program.chmod(0o755)

    def run_driver(self, *options):
        command = [sys.executable, str(DRIVER), "--programs", str(self.folder), *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def results(self, *options):
        file = self.folder / "results.jsonl"
        result = self.run_driver("--json", str(file), *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()], result.stdout

    def test_reports_figures_and_ratios_in_their_units(self):
        self.add_worker("bench_ferry", {"add8": 150, "matmul": 6_000_000, "device_guard": 12})
        self.add_worker("bench_libtorch", {"add8": 600, "matmul": 5_000_000})
        lines, table = self.results("--rounds", "2", "--filter", "^(add8|matmul|device_guard)$")
        self.assertEqual(lines, [
            {"name": "add8", "ferry": 150, "peer": 600, "ratio": 0.25, "unit": "ns"},
            {"name": "matmul", "ferry": 6, "peer": 5, "ratio": 1.2, "unit": "ms"},
            {"name": "device_guard", "ferry": 12, "peer": None, "ratio": None, "unit": "ns"},
        ])
        self.assertIn("| add8 | 150 | 600 | 0.25 | ns |", table)
        self.assertIn("| device_guard | 12.0 | – | – | ns |", table)

    def test_counts_operations_and_the_faster_variant(self):
        self.add_worker("bench_ferry", {"chain100": 100_000, "conv_forward_backward": 50_000_000})
        self.add_worker("bench_libtorch", {"chain100": 250_000, "conv_forward_backward": 80_000_000,
                                           "conv_forward_backward/channels_last": 62_500_000})
        lines, _ = self.results("--rounds", "2", "--filter", "chain|conv")
        self.assertEqual([(line["ferry"], line["peer"], line["ratio"]) for line in lines],
                         [(1000, 2500, 0.4), (50, 62.5, 0.8)])

    def test_asks_the_two_sides_in_turns(self):
        self.add_worker("bench_ferry", {"matmul": 200_000_000})
        self.add_worker("bench_libtorch", {"matmul": 200_000_000})
        self.results("--rounds", "3", "--filter", "matmul")
        requests = (self.folder / "requests").read_text(encoding="utf-8").split("\n")[:-1]
        sides = [request.split()[0] for request in requests]
        self.assertEqual(sides, ["bench_ferry", "bench_libtorch"] * 4)  # one to size the batch, then the rounds

    def test_measures_ferry_alone_without_a_peer(self):
        self.add_worker("bench_ferry", {"add8": 150})
        lines, _ = self.results("--rounds", "1", "--filter", "add8")
        self.assertEqual(lines, [{"name": "add8", "ferry": 150, "peer": None, "ratio": None, "unit": "ns"}])

    def test_goes_on_after_a_benchmark_that_fails_and_says_so(self):
        self.add_worker("bench_ferry", {"matmul": 6_000_000})
        result = self.run_driver("--rounds", "1", "--filter", "^(add8|matmul)$")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no benchmark named add8", result.stderr)
        self.assertIn("| matmul | 6.00 |", result.stdout)

    def test_refuses_a_filter_that_matches_nothing(self):
        self.add_worker("bench_ferry", {})
        result = self.run_driver("--filter", "nothing")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there are: add8, ", result.stderr)


if __name__ == "__main__":
    unittest.main()
