"""scripts/gpu_check without a GPU: what it lists, refuses, runs on a simulated GPU and writes.

Usage: gpu_check_test.py SCRIPT BUILD_FOLDER
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
del sys.argv[1:3]


def run(*arguments):
    # Without nvidia-smi, whatever is installed.
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=900,
                          env={**os.environ, "PATH": "/nowhere"}, check=False)


class GpuCheck(unittest.TestCase):
    def test_a_machine_without_a_gpu_is_told_so(self):
        result = run()
        self.assertEqual(result.returncode, 2)
        self.assertIn("nvidia-smi finds no GPU", result.stderr)

    def test_parts_are_listed_and_chosen_by_name(self):
        listed = [line.partition(":")[0] for line in run("--list").stdout.splitlines()]
        self.assertIn("compare", listed)
        result = run("no-such-part")
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown part no-such-part", result.stderr)

    def checked(self, *arguments):
        """The result of parts on a simulated GPU, which all pass, by part."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            result = run(*arguments, "--device", "sim:rtx2080ti", "--build", BUILD, "--json", path)
            written = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return {part["part"]: part for part in written["parts"]}

    def test_a_simulated_gpu_predicts_itself(self):
        parts = self.checked("devices", "copies", "compare", "--model", "resnet18:64")
        self.assertEqual(list(parts), ["devices", "copies", "compare"])
        self.assertIn("it needs a real GPU", parts["copies"]["skipped"])
        checks = {check["name"]: check for check in parts["compare"]["checks"]}
        error = checks["median error of predictions"]
        self.assertEqual(error["bar"], "<= 0.15")
        self.assertLess(error["value"], 0.02)

    def test_a_budget_leaves_every_bit(self):
        checks = self.checked("budget", "--model", "resnet18:16")["budget"]["checks"]
        self.assertEqual([check["name"] for check in checks if check["bar"] is not None],
                         ["resnet18: parameters within the budget are those without"])


if __name__ == "__main__":
    unittest.main()
