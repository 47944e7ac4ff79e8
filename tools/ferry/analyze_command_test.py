"""ferry analyze from outside: exit codes, formats, limits, and ferry's own recordings.

Usage: analyze_command_test.py PROGRAM [SYNC_COPIES]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv[1]
SYNC_COPIES = (sys.argv[2] if len(sys.argv) > 2 else "") or None
del sys.argv[1:]


def event(category, name, begin, length, process=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": process, "tid": 1, "ts": begin, "dur": length, "args": args}


# Two synchronous copies of 10 us each, in 100 us.
TRACE = {"schemaVersion": 1, "traceEvents": [
    event("cpu_op", "aten::to", 0, 100),
    event("cuda_runtime", "cudaMemcpy", 10, 10, correlation=1),
    event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 12, 3, process=0, correlation=1, stream=1, bytes=8),
    event("cuda_runtime", "cudaMemcpy", 30, 10, correlation=2),
    event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 32, 3, process=0, correlation=2, stream=1, bytes=8),
]}


class AnalyzeCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.trace = self.write("trace.json", json.dumps(TRACE))

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_program(self, *arguments, code=0, program=PROGRAM, **environment):
        result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60,
                                env={**os.environ, **environment})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def analyze(self, *arguments, **options):
        return self.run_program("analyze", *arguments, **options)

    def test_formats(self):
        report = json.loads(self.analyze(self.trace, "--format", "json").stdout)
        self.assertEqual(report["sync_copies"], {"h2d": 1, "d2h": 1})
        self.assertEqual(report["blocked_ns"], {"h2d": 10000, "d2h": 10000})
        self.assertIn("Trace Analysis", self.analyze(self.trace).stdout)
        self.assertTrue(self.analyze(self.trace, "--format", "html").stdout.startswith("<!doctype html>"))
        self.assertIn("| 1 | aten::to |", self.analyze(self.trace, "--format", "markdown").stdout)
        self.assertIn("<testsuite ", self.analyze(self.trace, "--format", "junit").stdout)
        path = os.path.join(self.folder, "annotated.json")
        self.analyze(self.trace, "--perfetto", path)
        with open(path) as file:
            self.assertGreater(len(json.load(file)["traceEvents"]), len(TRACE["traceEvents"]))

    def test_limits(self):
        self.analyze(self.trace, "--max-sync", "2", "--max-blocked", "20%")
        for limit in (["--max-sync", "1"], ["--max-blocked", "19%"]):
            error = self.analyze(self.trace, *limit, code=1).stderr
            self.assertIn(limit[0], error)
            self.assertIn("aten::to: sync_copy 1 copy CPU->GPU", error)
        allowed = self.write("allowed.txt", "aten::to  # known\n")
        self.analyze(self.trace, "--max-sync", "0", "--allow", allowed)

    def test_compare(self):
        fewer = self.write("fewer.json", json.dumps({"traceEvents": TRACE["traceEvents"][:3]}))
        self.assertRegex(self.analyze("--compare", self.trace, fewer).stdout, r"went +aten::to")
        self.analyze("--compare", self.trace, code=2)
        both = ["--compare", self.trace, fewer]
        rows = json.loads(self.analyze(*both, "--format", "json").stdout)["hotspots"]
        self.assertEqual(sorted(row["change"] for row in rows), ["same", "went"])
        self.assertEqual(len(json.loads(self.analyze(*both, "--format", "json", "--top", "1").stdout)["hotspots"]), 1)
        self.assertIn("| went | aten::to | sync\\_copy GPU->CPU |", self.analyze(*both, "--format", "markdown").stdout)
        page = self.analyze(*both, "--format", "html").stdout
        self.assertTrue(page.startswith("<!doctype html>"))
        self.assertIn('"change":"went"', page)
        self.assertIn('tests="2" failures="2"',
                      self.analyze(*both, "--format", "junit", "--max-sync", "0", code=1).stdout)

    def test_top_limits_rows_in_every_format(self):
        report = json.loads(self.analyze(self.trace, "--format", "json", "--top", "1").stdout)
        self.assertEqual(len(report["hotspots"]), 1)
        self.assertEqual(report["sync_copies"], {"h2d": 1, "d2h": 1})
        for form in ("text", "markdown"):
            self.assertIn("… 1 more (--top)", self.analyze(self.trace, "--format", form, "--top", "1").stdout)

    def test_unusable_input_is_one_line(self):
        for arguments in ([self.write("bad.json", '{"traceEvents": [{"ph": "X" 1}]}')], [self.write("empty", "")],
                          [self.folder], [os.path.join(self.folder, "absent")], [self.trace, "--step", "4"],
                          [self.trace, "--rank", "7"], [self.trace, "--sort", "name"], [self.trace, "--max-blocked", "x"],
                          [self.trace, "--allow", self.write("no_reason.txt", "aten::to\n")]):
            error = self.analyze(*arguments, code=2).stderr
            self.assertEqual(error.count("\n"), 1, error)
        error = self.analyze(self.write("bad.json", '{"traceEvents": [{"ph": "X" 1}]}'), code=2).stderr
        self.assertIn("byte 28", error)

    @unittest.skipIf(SYNC_COPIES is None, "the examples are not built")
    def test_own_recordings_have_the_counts_of_the_report(self):
        moved = self.write("placement.json", '{"rules": [{"op": "slice", "device": "cpu"}]}')
        for environment, expected in (({}, 10), ({"FERRY_PLACEMENT": moved}, 0)):
            recording, chrome = (os.path.join(self.folder, name) for name in ("sync.trace", "sync.json"))
            self.run_program("--device", "sim:rtx2080ti", "--trace", recording, program=SYNC_COPIES, **environment)
            self.run_program("report", recording, "--format", "chrome", "-o", chrome)
            for trace in (recording, chrome):
                report = json.loads(self.analyze(trace, "--format", "json").stdout)
                self.assertEqual(report["sync_copies"], {"h2d": expected, "d2h": expected})
                self.assertEqual(report["explicit_reads"]["calls"], 10)


if __name__ == "__main__":
    unittest.main()
