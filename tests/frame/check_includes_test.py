"""Plants one violation after the other in a small tree and expects scripts/check_includes.py to name each."""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_includes.py"
sys.dont_write_bytecode = True  # the sources stay as they are
spec = importlib.util.spec_from_file_location("check_includes", CHECKER)
check_includes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_includes)

LEGAL = {
    "include/ferry/units.h": "#include <cstdint>\n",
    "include/ferry/error.h": "#include <ferry/units.h>\n",
    "src/base/check.h": "#include <fmt/format.h>\n#include <ferry/error.h>\n",
    "src/kernels/add.h": '#include "src/base/check.h"\n',
    "src/device/driver.h": '#include "src/trace/trace.h"\n',
    "src/trace/trace.h": "#include <ferry/units.h>\n",
    "src/backends/cpu/cpu_driver.h": '#include "src/device/driver.h"\n#include "src/kernels/add.h"\n',
    "src/backends/sim/sim_driver.h": '#include "src/backends/cpu/cpu_driver.h"\n',
    "src/backends/cuda/cuda_driver.cu": '#include <cuda_runtime.h>\n#include "src/device/driver.h"\n',
    "src/runtime/builtin_backends.cpp": '#include "src/backends/sim/sim_driver.h"\n',
    "placement/advisor.h": '#include "src/trace/trace.h"\n',
    "profiler/report.h": '#include "src/trace/trace.h"\n',
    "tools/ferry/main.cpp": '#include "profiler/report.h"\n#include "tools/common/progress.h"\n',
    "tools/common/progress.h": "#include <ferry/units.h>\n",
    "examples/demo/demo.cpp": '#include <ferry/units.h>\n#include "demo/model.h"\n#include "tools/common/progress.h"\n',
    "examples/demo/model.h": "#include <ferry/units.h>\n",
    "tests/device/driver_test.cpp": '#include "src/backends/sim/sim_driver.h"\n',
}

# name: (file, contents, words that the report must have)
VIOLATIONS = {
    "upward": ("src/device/bad.h", '#include "src/runtime/runtime.h"', "layer device includes layer runtime"),
    "siblings": ("placement/bad.h", '#include "profiler/report.h"', "layer placement includes layer profiler"),
    "siblings_back": ("profiler/bad.h", '#include "swap/plan.h"', "layer profiler includes layer swap"),
    "kernels": ("src/kernels/bad.h", '#include "src/device/driver.h"', "layer kernels includes layer device"),
    "backend": ("src/runtime/bad.cpp", '#include "src/backends/cpu/cpu_driver.h"', "names the backend cpu"),
    "backend_in_tool": ("tools/ferry/bad.cpp", '#include "src/backends/sim/sim_driver.h"', "names the backend sim"),
    "cuda": ("src/backends/sim/bad.cpp", "#include <cuda_runtime.h>", "outside src/backends/cuda"),
    "cuda_in_test": ("tests/device/bad.cpp", "#include <cudnn.h>", "outside src/backends/cuda"),
    "internal_in_public": ("include/ferry/error.h", '#include "src/base/check.h"', "a public header includes"),
    "library_in_public": ("include/ferry/error.h", "#include <fmt/format.h>", "a public header includes"),
    "upward_public": ("include/ferry/units.h", "#include <ferry/runtime.h>", "layer base includes layer runtime"),
    "public_upward": ("src/base/bad.cpp", "#include <ferry/tensor.h>", "layer base includes layer tensor"),
    "unknown_public": ("include/ferry/novel.h", "#include <vector>", "add it to PUBLIC_HEADERS"),
    "unknown_included": ("src/base/bad.cpp", "#include <ferry/novel.h>", "add it to PUBLIC_HEADERS"),
    "unknown_folder": ("src/novel/bad.cpp", "#include <vector>", "add its folder to LAYERS"),
    "relative": ("src/trace/bad.cpp", '#include "trace.h"', "not named from the root"),
    "missing_in_example": ("examples/bad.cpp", '#include "demo/missing.h"', "not named from the root"),
    "private_in_example": ("examples/bad.cpp", '#include "src/trace/trace.h"', "public headers only"),
    "private_in_common": ("tools/common/bad.cpp", '#include "src/trace/trace.h"', "public headers only"),
    "common_in_library": ("src/base/bad.cpp", '#include "tools/common/progress.h"', "only its own folder"),
    "test_in_source": ("src/trace/bad.cpp", '#include "tests/support/fixture.h"', "only its own folder"),
    "spaced": ("src/trace/bad.cpp", '  #  include "src/device/driver.h"', "layer trace includes layer device"),
}


class CheckIncludes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        for path, text in LEGAL.items():
            self.write(path, text)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def run_checker(self, root=None):
        command = [sys.executable, str(CHECKER), "--root", str(root or self.root)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_accepts_a_legal_tree(self):
        result = self.run_checker()
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn(f"{len(LEGAL)} files, 0 violations", result.stdout)

    def test_names_each_planted_violation(self):
        for name, (path, include, words) in VIOLATIONS.items():
            with self.subTest(name):
                before = LEGAL.get(path)
                self.write(path, (before or "") + include + "\n")
                problems, _ = check_includes.check(self.root)
                self.assertEqual(len(problems), 1, problems)
                self.assertIn(words, problems[0])
                # A file that belongs nowhere is reported as such, whatever it includes.
                line = 1 if name in ("unknown_public", "unknown_folder") else (before or "").count("\n") + 1
                self.assertTrue(problems[0].startswith(f"{path}:{line}: "), problems[0])
                if before is None:
                    (self.root / path).unlink()
                else:
                    self.write(path, before)

    def test_fails_on_a_violation(self):
        self.write("src/trace/bad.cpp", '#include "src/device/driver.h"\n')
        result = self.run_checker()
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("1 violations", result.stdout)

    def test_refuses_a_tree_without_sources(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertEqual(self.run_checker(empty).returncode, 2)


if __name__ == "__main__":
    unittest.main()
