"""fashion_mnist in a small form: a short run learns, resumes and repeats itself.

Usage: fashion_mnist_test.py PROGRAM
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
BRIEF = "FERRY_TEST_BRIEF" in os.environ  # under a sanitizer: too short to learn
LESSON = ["--limit", "600" if BRIEF else "6000", "--epochs", "1", "--batch", "32", "--rate", "0.05", "--test-limit",
          "200" if BRIEF else "2000"]


class FashionMnist(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, *arguments, code=0):
        result = subprocess.run([PROGRAM, "--quiet", *arguments], capture_output=True, text=True, timeout=600)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def figures(self, name, *arguments):
        self.run_program(*arguments, "--json", self.path(name))
        with open(self.path(name)) as file:
            return json.load(file)

    def test_a_short_run_learns(self):
        figures = self.figures("figures.json", *LESSON)
        self.assertEqual(figures["steps"], 19 if BRIEF else 188)
        self.assertGreaterEqual(figures["test_accuracy"], 0.0 if BRIEF else 0.70)

    # A short run; its accuracy varies by more than whole runs' does.
    def test_mixed_precision_learns_as_well(self):
        whole = self.figures("f32.json", *LESSON)["test_accuracy"]
        for precision in ("bf16", "f16"):
            with self.subTest(precision):
                figures = self.figures(f"{precision}.json", *LESSON, "--precision", precision)
                self.assertGreaterEqual(figures["test_accuracy"], whole - (1 if BRIEF else 0.03))

    def test_repeats_itself_on_the_virtual_clock(self):
        # The last batch has a single picture.
        training = ["--limit", "129", "--test-limit", "100", "--epochs", "2", "--batch", "64"]
        first, second = (self.figures(f"{i}.json", *training) for i in range(2))
        for figures in (first, second):
            del figures["images_per_second_wall"]
        self.assertEqual(first["time"], "virtual")
        self.assertEqual(first, second)
        self.assertGreater(first["virtual_ms_per_step"], 0)
        other = self.run_program(*training, "--device", "sim:h100", "--json", self.path("other.json"))
        self.assertRegex(other.stdout, r"On sim:h100, virtual time: [0-9.]+ ms a step, [0-9]+ images/s; peak device")
        with open(self.path("other.json")) as file:
            self.assertLess(json.load(file)["virtual_ms_per_step"], first["virtual_ms_per_step"])

    def test_continues_after_an_interruption_as_if_there_had_been_none(self):
        training = ["--limit", "129", "--test-limit", "100", "--epochs", "10", "--batch", "64"]
        whole = self.figures("whole.json", *training)
        checkpoint = self.path("checkpoint")
        resumable = [*training, "--checkpoint", checkpoint]
        process = subprocess.Popen([PROGRAM, "--quiet", *resumable], stdout=subprocess.PIPE, text=True)
        while not os.path.exists(checkpoint) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 130, output)

        resumed = self.figures("resumed.json", *resumable)
        self.assertLess(len(resumed["epochs"]), 10)
        for key in ("steps", "loss", "test_accuracy"):
            self.assertEqual(resumed[key], whole[key])
        other = self.run_program(*resumable, "--seed", "2", code=2)
        self.assertIn("another --seed than 2", other.stderr)

    def test_says_at_once_what_cannot_be_written(self):
        for option, name in (("--json", "absent/f.json"), ("--profile", "absent/p.trace"),
                             ("--checkpoint", "absent/state")):
            result = self.run_program(option, self.path(name), code=2)
            self.assertIn(f"{name}: No such file", result.stderr)
            self.assertEqual(result.stdout, "")

    def test_says_what_is_missing(self):
        result = self.run_program("--data", self.folder, code=2)
        self.assertIn("install Debian's package dataset-fashion-mnist", result.stderr)
        name = "train-images-idx3-ubyte"
        with open(self.path(name), "wb") as file:
            file.write(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(100))
        with open(self.path("train-labels-idx1-ubyte"), "wb") as file:
            file.write(bytes([0, 0, 8, 1, 0, 0, 0, 2, 3, 4]))
        result = self.run_program("--data", self.folder, code=2)
        self.assertIn(f"{name}: byte 116:", result.stderr)


if __name__ == "__main__":
    unittest.main()
