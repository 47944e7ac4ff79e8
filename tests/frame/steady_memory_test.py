"""Ten thousand training steps need no more resident memory than a tenth of them (one thousand without
FERRY_TEST_FULL=1).

Usage: steady_memory_test.py WORD_VECTORS FASHION_MNIST
"""

import os
import subprocess
import sys
import unittest

WORD_VECTORS, FASHION_MNIST = sys.argv[1:3]
del sys.argv[1:3]
FULL = os.environ.get("FERRY_TEST_FULL") == "1"
STEPS = 10_000 if FULL else 1_000
# A segment of the allocator, written results. Of ten thousand steps a kilobyte each would be 9 MiB more.
SLACK = 4 << 20


def peak_bytes(command):
    """The most resident memory that the command had."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise AssertionError(f"{command}: {process.returncode}")
    return usage.ru_maxrss * 1024


class SteadyMemory(unittest.TestCase):
    def expect_flat(self, command_for):
        few, many = peak_bytes(command_for(STEPS // 10)), peak_bytes(command_for(STEPS))
        print(f"resident memory: {few} bytes in {STEPS // 10} steps, {many} in {STEPS}")
        self.assertLessEqual(many, few + SLACK)

    def test_fashion_mnist(self):
        # An epoch is a hundred steps.
        self.expect_flat(lambda steps: [FASHION_MNIST, "--quiet", "--batch", "16", "--limit", str(16 * 100), "--epochs",
                                        str(steps // 100), "--test-limit", "100"])

    def test_word_vectors(self):
        self.expect_flat(lambda steps: [WORD_VECTORS, "--quiet", "--steps", str(steps), "--rows", "20000", "--dim", "32",
                                        "--batch", "64"])


if __name__ == "__main__":
    unittest.main()
