"""What the ferry command says of its version, of commands it does not know and of files that are no trace.

Usage: ferry_command_test.py PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


class FerryCommand(unittest.TestCase):
    def run_program(self, *arguments, code=0):
        result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_version(self):
        self.assertRegex(self.run_program("--version").stdout, r"^ferry \d+\.\d+\.\d+\n$")

    def test_names_an_unknown_command(self):
        error = self.run_program("reprot", "run.trace", code=2).stderr
        self.assertIn("there is no command 'reprot'", error)
        self.assertIn("report", error.split("commands:")[1])
        self.assertEqual(error.count("\n"), 1)

    def test_says_that_a_file_is_no_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            for text in ('{"displayTimeUnit": "ns", "traceEvents": []}', '{"report": 1}', "[]", "<!doctype html>"):
                path = os.path.join(folder, "chrome.json")
                with open(path, "w") as file:
                    file.write(text)
                error = self.run_program("report", path, code=2).stderr
                self.assertIn("is no trace of ferry", error)
                self.assertIn("Profiler::write_trace", error)
                self.assertEqual(error.count("\n"), 1, error)

    def test_devices_are_gpus_and_the_cpu(self):
        devices = self.run_program("devices").stdout
        self.assertIn("sim:rtx2080ti", devices)
        self.assertNotIn("sim:host", devices)

    def test_models_have_parameters_operations_and_activations(self):
        models = {model["name"]: model for model in json.loads(self.run_program("models", "--json", "-").stdout)["models"]}
        resnet = models["resnet50"]
        self.assertEqual(resnet["parameters"], 25_557_032)
        self.assertAlmostEqual(resnet["flops_per_sample"] / 8.2e9, 1, delta=0.03)
        self.assertAlmostEqual(resnet["activation_bytes_per_sample"] / 84e6, 1, delta=0.03)
        self.assertIn("1512.03385", resnet["paper"])
        table = self.run_program("models").stdout
        for name in models:
            self.assertIn(f"\n{name} ", table)


if __name__ == "__main__":
    unittest.main()
