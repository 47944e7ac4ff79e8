"""ferry compare: the figures it writes, the ladder of budgets, budgets that are too small, the page.

Usage: compare_test.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
MODEL = ("--model", "resnet18", "--image-size", "64", "--batch", "128", "--device", "sim:rtx2080ti")
ROWS = ["none", "checkpoint", "recompute", "recompute_planned", "swap_on_demand", "swap_planned", "hybrid", "amp",
        "accumulate", "amp+hybrid"]
FIELDS = {"method", "feasible", "step_ms", "ratio", "peak_allocated", "peak_reserved", "bytes_out", "bytes_in",
          "stall_ms", "recompute_ms", "largest_batch"}


# Plans need not be good, but where a test says so.
QUICK = {"FERRY_PLANNING_EFFORT": "0.1", **os.environ}


def run(*arguments, code=0, environment=QUICK):
    result = subprocess.run([PROGRAM, "compare", *map(str, arguments)], capture_output=True, text=True, timeout=600,
                            env=environment)
    if result.returncode != code:
        raise AssertionError(f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def figures(*arguments):
    return json.loads(run(*MODEL, "--json", "-", *arguments).stdout)


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = figures("--budget", "0.8x", "--no-largest-batch")
        cls.rows = {row["method"]: row for row in cls.result["rows"]}

    def test_every_row_has_every_figure(self):
        self.assertEqual([row["method"] for row in self.result["rows"]], ROWS)
        for row in self.result["rows"]:
            self.assertEqual(set(row), FIELDS)
            if row["feasible"]:
                self.assertGreater(row["step_ms"], 0)
                self.assertLessEqual(row["peak_allocated"], row["peak_reserved"])
                self.assertLessEqual(row["peak_reserved"], self.result["budget"], row["method"])
                self.assertLessEqual(row["stall_ms"] + row["recompute_ms"], row["step_ms"])

    def test_none_is_measured_although_it_does_not_fit(self):
        none = self.rows["none"]
        self.assertFalse(none["feasible"])
        self.assertEqual(none["ratio"], 1)
        self.assertGreater(none["peak_allocated"], self.result["budget"])
        self.assertEqual((none["bytes_out"], none["bytes_in"], none["recompute_ms"]), (0, 0, 0))
        self.assertTrue(figures("--budget", "4GiB", "--rows", "none", "--no-ladder", "--no-largest-batch")["rows"][0]["feasible"])

    def test_methods_do_what_they_are_called(self):
        for name in ("swap_on_demand", "swap_planned"):
            self.assertEqual(self.rows[name]["recompute_ms"], 0)
            self.assertGreater(self.rows[name]["bytes_out"], 0)
            self.assertGreater(self.rows[name]["bytes_in"], 0)
        self.assertGreater(self.rows["recompute"]["recompute_ms"], 0)
        self.assertEqual(self.rows["recompute"]["bytes_out"], 0)
        self.assertLess(self.rows["hybrid"]["step_ms"], self.rows["swap_on_demand"]["step_ms"])
        self.assertLess(self.rows["amp"]["step_ms"], self.rows["none"]["step_ms"])

    def test_the_same_command_prints_the_same_and_finds_the_largest_batch(self):
        none, hybrid = figures("--budget", "0.8x", "--rows", "hybrid", "--no-ladder")["rows"]
        self.assertLess(none["largest_batch"], 128)
        self.assertGreaterEqual(hybrid["largest_batch"], 128)
        for row in (none, hybrid):
            self.assertEqual({**row, "largest_batch": None}, self.rows[row["method"]])

    def test_the_ladder_never_rises_with_the_budget(self):
        ladder = self.result["ladder"]
        self.assertEqual([step["part"] for step in ladder], [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
        times = [step["step_ms"] for step in ladder if step["step_ms"] is not None]
        self.assertGreaterEqual(len(times), 4)
        self.assertEqual(times, sorted(times))
        self.assertLess(times[0], times[-1])
        feasible = [step["step_ms"] is not None for step in ladder]
        self.assertEqual(feasible, sorted(feasible, reverse=True))

    def test_refuses_a_budget_and_names_the_smallest_that_works(self):
        refused = figures("--budget", "0.3x", "--rows", "hybrid", "--no-largest-batch", "--no-ladder")
        hybrid = refused["rows"][1]
        self.assertFalse(hybrid["feasible"])
        self.assertIsNone(hybrid["step_ms"])
        smallest = refused["smallest_budget"]
        self.assertGreater(smallest, refused["budget"])
        self.assertLess(smallest, refused["peak"])
        works = figures("--budget", smallest, "--rows", "hybrid", "--no-largest-batch", "--no-ladder")
        self.assertTrue(works["rows"][1]["feasible"])
        self.assertLessEqual(works["rows"][1]["peak_reserved"], smallest)
        self.assertIsNone(works["smallest_budget"])
        text = run(*MODEL, "--budget", "0.3x", "--rows", "hybrid", "--no-largest-batch", "--no-ladder").stdout
        self.assertIn(f"({smallest} bytes)", text)

    # Its bytes fit the link during the step.
    def test_a_planned_swap_hides_behind_the_ops(self):
        result = json.loads(run("--model", "vgg16", "--batch", 64, "--device", "sim:v100-16gb", "--budget", "0.7x",
                                "--rows", "swap_on_demand,swap_planned", "--no-largest-batch", "--no-ladder", "--json",
                                "-", environment=os.environ).stdout)
        rows = {row["method"]: row for row in result["rows"]}
        self.assertLessEqual(rows["swap_planned"]["ratio"], 1.03)
        self.assertGreater(rows["swap_on_demand"]["ratio"], 1.03)
        self.assertEqual(rows["swap_planned"]["recompute_ms"], 0)
        self.assertGreater(rows["swap_planned"]["bytes_in"], 0)

    def test_writes_a_page_that_needs_nothing_else_and_explains(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "page.html")
            text = run(*MODEL, "--budget", "0.6x", "--rows", "hybrid", "--no-largest-batch", "--explain", "--html",
                       path).stdout
            with open(path, encoding="utf-8") as file:
                page = file.read()
        self.assertRegex(text, r"hybrid: budget .* x the time without one")
        self.assertIn("batch_norm_backward", text)
        self.assertTrue(page.startswith("<!doctype html>"))
        self.assertNotRegex(page, r"https?://")
        data = json.loads(re.search(r'id="data">\n(.*?)\n</script>', page, re.S).group(1))
        hybrid = data["rows"][1]
        self.assertTrue(any(each["choice"] == "recompute" for each in hybrid["decisions"]))
        allocated = [sample[1] for sample in hybrid["timeline"]["memory"]]
        self.assertEqual(max(allocated), hybrid["peak_allocated"])
        compute = [span for span in hybrid["timeline"]["spans"] if span[0] == 0]
        again = sum(length for _, kind, _, length, *_ in compute if kind == 3)
        self.assertAlmostEqual(again / 2 / 1e6, hybrid["recompute_ms"], places=3)
        for before, after in zip(compute, compute[1:]):
            self.assertLessEqual(before[2] + before[3], after[2])

    def test_bad_usage_is_one_line(self):
        for arguments, words in ((("--model", "resnet18", "--batch", 4, "--device", "cpu"), "cpu is no GPU"),
                                 ((*MODEL, "--budget", "0x"), "out of range"),
                                 ((*MODEL, "--budget", "lots"), "lots"),
                                 ((*MODEL, "--rows", "none,best"), "there is no row 'best'")):
            error = run(*arguments, code=2).stderr
            self.assertIn(words, error)
            self.assertEqual(error.count("\n"), 1, error)


if __name__ == "__main__":
    unittest.main()
