"""Ten thousand training steps keep their resident memory (one thousand without FERRY_TEST_FULL=1).

Usage: steady_memory_test.py WORD_VECTORS FASHION_MNIST
"""

import os
import subprocess
import sys
import time
import unittest

WORD_VECTORS, FASHION_MNIST = sys.argv[1:3]
del sys.argv[1:3]
FULL = os.environ.get("FERRY_TEST_FULL") == "1"
STEPS = 10_000 if FULL else 1_000
# Beyond what is needed half-way: a segment of the allocator, written results. A kilobyte a step would be 5 MiB more.
SLACK = 4 << 20


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class SteadyMemory(unittest.TestCase):
    def samples(self, command):
        """Resident memory at short intervals while the command runs."""
        values = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            while process.poll() is None:
                try:
                    values.append(resident_bytes(process.pid))
                except (OSError, IndexError):
                    break
                time.sleep(0.01)
            output = process.stdout.read()
        self.assertEqual(process.returncode, 0, output)
        return values

    def expect_flat(self, values):
        self.assertGreater(len(values), 9, "the run was too short to tell")
        third, half = len(values) // 3, len(values) // 2  # data is read in the first third
        early, late = max(values[third:half]), max(values[half:])
        print(f"resident memory: {early} bytes at first, {late} later")
        self.assertLessEqual(late, early + SLACK)

    def test_fashion_mnist(self):
        pictures = 16 * 250
        self.expect_flat(self.samples([FASHION_MNIST, "--quiet", "--batch", "16", "--limit", str(pictures), "--epochs",
                                       str(STEPS // 250), "--test-limit", "100"]))

    def test_word_vectors(self):
        self.expect_flat(self.samples([WORD_VECTORS, "--quiet", "--steps", str(STEPS), "--rows", "20000", "--dim", "32",
                                       "--batch", "64"]))


if __name__ == "__main__":
    unittest.main()
