"""memory_budget: trains within less than a third of its peak, with the same results.

Usage: memory_budget_test.py PROGRAM
"""
import json
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


class MemoryBudget(unittest.TestCase):
    def run_program(self, *arguments, code=0):
        result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=600)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_trains_in_less_than_a_third(self):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            output = self.run_program("--steps", "6", "--device", "sim:rtx2080ti", "--json", file.name).stdout
            figures = json.load(file)
        without, within = figures["without"], figures["within"]
        self.assertTrue(figures["same"])
        self.assertEqual(without["losses"], within["losses"])
        self.assertEqual(len(set(within["losses"])), 6)
        self.assertEqual(without["test_accuracy"], within["test_accuracy"])
        self.assertLess(3 * within["peak_reserved"], without["peak_allocated"])
        self.assertLessEqual(within["peak_reserved"], figures["budget"])
        self.assertIn("bit for bit", output)

    def test_says_that_a_budget_is_too_small(self):
        error = self.run_program("--steps", "2", "--part", "0.05", "--device", "sim:rtx2080ti", code=1).stderr
        self.assertIn("budget", error)
        self.assertEqual(error.count("\n"), 1, error)

    def test_needs_a_gpu(self):
        self.assertIn("needs a GPU", self.run_program("--device", "cpu", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
