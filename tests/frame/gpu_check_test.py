"""What scripts/gpu_check makes of figures, failures and missing parts, where there is no GPU."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check"
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
gpu_check = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
loader.exec_module(gpu_check)


class GpuCheck(unittest.TestCase):
    def run_with(self, *arguments, parts, gpu="NVIDIA H200, 9.0, 580"):
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            path = pathlib.Path(folder) / "result.json"
            stack.enter_context(mock.patch.object(gpu_check, "PARTS", parts))
            stack.enter_context(mock.patch.object(gpu_check, "gpu_name", lambda: gpu))
            stack.enter_context(mock.patch.object(sys, "argv", ["gpu_check", "--json", str(path), *arguments]))
            output = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            stack.enter_context(contextlib.redirect_stderr(output))
            code = gpu_check.main()
            return code, json.loads(path.read_text()) if path.exists() else None, output.getvalue()

    def test_a_value_below_its_bar_fails_the_run(self):
        def part(checks, _options):
            checks.at_least("rate", 0.96, gpu_check.COPY_BAR)
            checks.at_most("error", 0.2, gpu_check.PREDICTION_BAR)

        code, result, output = self.run_with(parts={"rates": part})
        self.assertEqual(code, 1)
        self.assertFalse(result["passed"])
        checks = result["parts"][0]["checks"]
        self.assertEqual([check["passed"] for check in checks], [True, False])
        self.assertEqual(checks[0]["bar"], ">= 0.95")
        self.assertIn("error: 0.2  bar <= 0.15: FAIL", output)

    def test_all_bars_met_is_success(self):
        code, result, _ = self.run_with(parts={"one": lambda checks, _: checks.at_least("rate", 1.0, 0.97)})
        self.assertEqual((code, result["passed"]), (0, True))

    def test_a_failing_command_fails_its_part_and_the_others_run(self):
        def broken(_checks, _options):
            gpu_check.run([sys.executable, "-c", "import sys; print('out of luck'); sys.exit(3)"], 30)

        code, result, _ = self.run_with(parts={"broken": broken, "figures": lambda checks, _: checks.figure("x", 1)})
        self.assertEqual(code, 1)
        self.assertIn("out of luck", result["parts"][0]["error"])
        self.assertTrue(result["parts"][1]["passed"])

    def test_what_cannot_run_here_is_skipped_with_its_reason(self):
        def part(_checks, _options):
            raise gpu_check.Skipped("no such tool")

        code, result, _ = self.run_with(parts={"tool": part})
        self.assertEqual((code, result["parts"][0]["skipped"]), (0, "no such tool"))

    def test_only_the_named_parts_run(self):
        parts = {name: lambda checks, _: checks.figure("x", 1) for name in ("a", "b", "c")}
        _, result, _ = self.run_with("b", parts=parts)
        self.assertEqual([part["part"] for part in result["parts"]], ["b"])

    def test_without_a_gpu_it_says_so(self):
        code, result, output = self.run_with(parts={}, gpu=None)
        self.assertEqual((code, result), (2, None))
        self.assertIn("finds no GPU", output)

    def test_an_unknown_part_is_refused(self):
        result = subprocess.run([SCRIPT, "nonsense"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("unknown part nonsense", result.stderr)


if __name__ == "__main__":
    unittest.main()
