"""embedding_on_cpu: fails without a guard, trains with one, and says what it cannot do.

Usage: embedding_on_cpu_test.py PROGRAM
The table has a tenth of its rows, and the GPU a tenth of its memory, unless FERRY_TEST_FULL=1 (6 GB of memory).
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
FULL = os.environ.get("FERRY_TEST_FULL", "0") not in ("", "0")
SIZE = [] if FULL else ["--rows", "1000000"]
TINY = ["--rows", "20000", "--batch", "128", "--steps", "1"]


class EmbeddingOnCpu(unittest.TestCase):
    def run_program(self, *arguments, code=0, device=None):
        environment = {key: value for key, value in os.environ.items() if key != "FERRY_DEVICE"}
        if device is not None:
            environment["FERRY_DEVICE"] = device
        result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=600, env=environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_trains_what_does_not_fit_the_gpu(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            output = self.run_program(*SIZE, "--steps", "3", "--json", file.name).stdout
            figures = json.load(file)
        self.assertGreater(figures["table_bytes"], figures["device_memory"])
        self.assertIn("uniform", figures["out_of_memory"])
        self.assertIn("creating the table of ", output)
        self.assertEqual(len(figures["losses"]), 3)
        self.assertEqual(figures["losses"], sorted(figures["losses"], reverse=True))
        self.assertLess(figures["peak_allocated"], figures["device_memory"] // 10)

    def test_advice_finds_the_tables_lines_from_the_capacity(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            output = self.run_program(*TINY, "--advise", file.name).stdout
            rules = json.load(file)["rules"]
        self.assertIn("it does not fit into the device's memory", output)
        moved = [rule["op"] for rule in rules if rule["device"] == "cpu"]
        self.assertEqual(moved[:2], ["uniform", "embedding"])

    def test_needs_a_gpu(self):
        for arguments, device in ((["--device", "cpu"], None), ([], "cpu")):
            error = self.run_program(*TINY, *arguments, code=2, device=device).stderr
            self.assertIn("needs a GPU", error)
            self.assertEqual(error.count("\n"), 1)

    def test_takes_the_device_of_the_environment(self):
        self.assertIn("sim:gtx1060", self.run_program(*TINY, device="sim:gtx1060").stdout)
        self.assertIn("sim:rtx2080ti", self.run_program(*TINY).stdout)


if __name__ == "__main__":
    unittest.main()
