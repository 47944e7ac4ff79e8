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

    def test_calibrating_a_simulated_gpu_gives_back_its_spec(self):
        """A GPU that differs from its base in all that can be measured."""
        def figures(node, path=()):
            for name, value in node.items():
                if isinstance(value, dict):
                    yield from figures(value, (*path, name))
                elif not isinstance(value, str):
                    yield (*path, name), value

        preset = os.path.join(os.path.dirname(__file__), "../../src/device/specs/rtx2080ti.json")
        with open(preset) as file:
            spec = json.load(file)
        spec["name"] = "mine"
        for index, entry in enumerate(spec["efficiency"].values()):
            entry["fraction"] *= 0.5 + 0.04 * index
        spec["efficiency"]["metadata"]["fraction"] = 0.88  # nothing runs of that class
        for name in ("kernel_cost", "launch_cost", "allocation_cost"):
            spec[name]["nanoseconds"] *= 3
        for link, factor in (("host_to_device", 2), ("device_to_host", 0.4)):
            spec[link]["bandwidth"]["bytes_per_second"] *= factor
            spec[link]["latency"]["nanoseconds"] *= 5
        spec["pageable_factor"]["fraction"] *= 0.7
        with tempfile.TemporaryDirectory() as folder:
            given, measured = os.path.join(folder, "given.json"), os.path.join(folder, "measured.json")
            with open(given, "w") as file:
                json.dump(spec, file)
            output = self.run_program("calibrate", "--device", f"sim:{given}", "--base", "rtx2080ti", "-o", measured)
            self.assertIn("sim:mine, virtual time", output.stdout)
            with open(measured) as file:
                result = json.load(file)
            self.run_program("calibrate", "--device", f"sim:{measured}", "--base", measured)
        self.assertIn("ferry calibrate on", result["efficiency"]["matmul"]["source"])
        self.assertNotIn("ferry calibrate on", result["bandwidth"]["source"])
        for path, value in figures(spec):
            self.assertAlmostEqual(dict(figures(result))[path] / value, 1, delta=0.03, msg=".".join(path))

    def test_there_is_no_spec_of_a_cpu(self):
        self.assertIn("is no GPU", self.run_program("calibrate", "--device", "cpu", code=2).stderr)


if __name__ == "__main__":
    unittest.main()
