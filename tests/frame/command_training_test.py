"""Runs ferry train, profile and max-batch: figures, resuming bit for bit, Ctrl-C, bad usage."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FERRY = sys.argv.pop(1)
BRIEF = "FERRY_TEST_BRIEF" in os.environ  # under a sanitizer


def ferry(*arguments, check=True):
    result = subprocess.run([FERRY, *map(str, arguments)], capture_output=True, text=True, check=False)
    if check and result.returncode != 0:
        raise AssertionError(f"{arguments}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result


class Training(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, steps, *options, checkpoint="run.ckpt"):
        return ferry("train", "--model", "lenet", "--data", "random", "--batch", 4, "--quiet", "--rate", 0.01,
                     "--optimizer", "adamw", "--steps", steps, "--checkpoint", self.folder / checkpoint, *options)

    def test_resumes_bit_for_bit(self):
        self.train(12, checkpoint="whole.ckpt")
        self.train(5)
        self.assertIn("Continuing from", self.train(12).stdout)
        self.assertEqual((self.folder / "run.ckpt").read_bytes(), (self.folder / "whole.ckpt").read_bytes())
        self.assertIn("were done before", self.train(12).stdout)

    def test_refuses_a_checkpoint_of_other_options(self):
        self.train(2)
        result = ferry("train", "--model", "lenet", "--batch", 8, "--steps", 4, "--optimizer", "adamw", "--rate", 0.01,
                       "--checkpoint", self.folder / "run.ckpt", check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--batch 4", result.stderr)
        self.assertIn("--restart", result.stderr)

    def test_ctrl_c_saves(self):
        checkpoint = self.folder / "run.ckpt"
        command = [FERRY, "train", "--model", "lenet", "--batch", "4", "--steps", "1000000", "--quiet", "--device", "cpu",
                   "--checkpoint", str(checkpoint)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while "Data:" not in process.stdout.readline():
                self.assertIsNone(process.poll())
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 130, output)
        self.assertIn("The same command continues", output)
        self.assertTrue(checkpoint.exists())

    def test_accumulated_batches_make_one_step(self):
        figures = self.folder / "figures.json"
        self.train(3, "--accumulate", 2, "--json", figures)
        self.assertEqual(json.loads(figures.read_text(encoding="utf-8"))["batch"], 8)

    def test_mixed_precision_trains(self):
        for precision in ["bf16", "f16"]:
            with self.subTest(precision):
                result = ferry("train", "--model", "lenet", "--data", "fashion-mnist", "--batch", 32, "--steps", 60,
                               "--quiet", "--optimizer", "adam", "--rate", 0.002, "--device", "cpu", "--precision",
                               precision, "--json", self.folder / "figures.json")
                self.assertIn("Loss:", result.stdout)
                figures = json.loads((self.folder / "figures.json").read_text(encoding="utf-8"))
                self.assertLess(figures["loss"], 0.6 * figures["first_loss"])

    def test_text_is_learnt_by_models_that_read_it(self):
        text, figures = self.folder / "text", self.folder / "figures.json"
        text.write_text("words and words " * 500, encoding="utf-8")
        ferry("train", "--model", "lstm", "--data", f"text:{text}", "--sequence-length", 8, "--batch", 8, "--steps", 20,
              "--optimizer", "adam", "--rate", 0.003, "--device", "cpu", "--quiet", "--json", figures)
        result = json.loads(figures.read_text(encoding="utf-8"))
        self.assertLess(result["loss"], 0.6 * result["first_loss"])
        for model in ["lenet", "transformer"]:
            with self.subTest(model):
                refused = ferry("train", "--model", model, "--data", f"text:{text}", check=False)
                self.assertEqual(refused.returncode, 2)
                self.assertIn("next token", refused.stderr)

    def test_profile_prints_the_report_and_writes_files(self):
        page, trace = self.folder / "page.html", self.folder / "run.trace"
        result = ferry("profile", "--model", "lenet", "--batch", 4, "--steps", 2, "--timing-only", "--device",
                       "sim:v100-16gb", "--quiet", "--html", page, "--trace", trace)
        self.assertIn("Profiling Report", result.stdout)
        self.assertIn("conv2d", result.stdout)
        self.assertTrue(page.read_text(encoding="utf-8").lower().startswith("<!doctype html>"))
        self.assertIn("conv2d", ferry("report", trace).stdout)

    def test_max_batch_finds_more_with_more_memory_and_with_checkpoints(self):
        def largest(*options):
            text = ferry("max-batch", "--model", "resnet18", "--image-size", 64, "--device", "sim:rtx2080ti", "--json",
                         "-", *options).stdout
            figures = json.loads(text)
            self.assertGreater(figures["ms_per_sample"], 0)
            return figures

        small = largest("--budget", "1GiB")
        self.assertLessEqual(small["peak_bytes"], 1 << 30)
        self.assertGreater(largest("--budget", "2GiB")["batch"], small["batch"])
        self.assertGreater(largest("--budget", "1GiB", "--method", "checkpoint")["batch"], small["batch"])
        self.assertEqual(largest("--budget", "1GiB"), small)

    def test_bad_usage_is_one_line(self):
        for arguments in [["max-batch", "--model", "nothing"], ["train", "--model", "lenet", "--data", "noise"],
                          ["train", "--model", "lenet", "--timing-only", "--device", "cpu"],
                          ["max-batch", "--model", "lenet", "--budget", "much"]]:
            with self.subTest(arguments):
                result = ferry(*arguments, check=False)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)


class Advice(unittest.TestCase):
    def advised(self, *arguments):
        """The rules written, and the times as recorded, predicted and measured; without advice no times."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "placement.json"
            output = ferry("profile", "--device", "sim:rtx2080ti", "--quiet", "--advise", path, "--apply",
                           *arguments).stdout
            rules = json.loads(path.read_text())["rules"]
        times = re.search(r"As recorded ([\d.]+) ms, predicted ([\d.]+) ms, measured ([\d.]+) ms", output)
        self.assertIn("Placement: ", output)
        return rules, [float(time) for time in times.groups()] if times else None

    def test_is_never_slower_and_as_foretold(self):
        changed = 0
        runs = [["lenet", 4, 2], ["mlp", 4, 2], ["lstm", 2, 2]]
        if not BRIEF:
            runs += [["lenet", 4, 20], ["mlp", 64, 3], ["tree_lstm", 2, 2], ["transformer", 1, 2], ["resnet18", 2, 2],
                     ["shufflenet_v2", 1, 2]]
        for arguments in runs:
            model, batch, steps = arguments
            with self.subTest(model=model, batch=batch, steps=steps):
                rules, times = self.advised("--model", model, "--batch", batch, "--steps", steps)
                if times is None:
                    self.assertEqual(rules, [])
                    continue
                changed += 1
                recorded, predicted, measured = times
                # What turns out slower is taken back.
                if rules:
                    self.assertLessEqual(measured, 1.01 * recorded)
                self.assertAlmostEqual(measured / predicted, 1, delta=0.1)
        self.assertGreater(changed, 1)

    def test_a_capacity_moves_the_tables_of_a_model(self):
        arguments = ["--model", "dlrm", "--batch", 32, "--steps", 3, "--device-memory", "1GiB"]
        rules, times = self.advised(*arguments)
        moved = {rule["op"] for rule in rules if rule["device"] == "cpu"}
        self.assertLessEqual({"normal", "embedding"}, moved)
        self.assertAlmostEqual(times[2] / times[1], 1, delta=0.1)
        result = ferry("profile", "--device", "sim:rtx2080ti", "--quiet", "--advise", *arguments[:-1], "1KiB",
                       check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no placement needs less than", result.stderr)

    def test_needs_a_gpu(self):
        result = ferry("profile", "--model", "lenet", "--device", "cpu", "--advise", check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("needs a GPU", result.stderr)


if __name__ == "__main__":
    unittest.main()
