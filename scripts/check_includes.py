#!/usr/bin/env python3
"""Checks that the includes of ferry's sources follow the layers, and prints each one that does not.

A file may include its own layer and those below it, as listed in LAYERS. Exit status: 0 clean, 1 violations, 2 usage.
"""

import argparse
import pathlib
import re
import sys

# layer: (folder, layers it may include besides itself). "a*" stands for a and all that a may include.
LAYERS = {
    "base": ("src/base", []),
    "kernels": ("src/kernels", ["base"]),
    "trace": ("src/trace", ["base"]),
    "device": ("src/device", ["trace*"]),
    "memory": ("src/memory", ["device*"]),
    "tensor": ("src/tensor", ["memory*"]),
    "ops": ("src/ops", ["tensor*"]),
    "placement": ("placement", ["ops*"]),
    "engine": ("swap/engine", ["swap*"]),
    "swap": ("swap", ["ops*"]),
    "profiler": ("profiler", ["ops*"]),
    "cpu": ("src/backends/cpu", ["placement*", "engine*", "profiler*", "kernels"]),
    "sim": ("src/backends/sim", ["cpu*"]),
    "cuda": ("src/backends/cuda", ["placement*", "engine*", "profiler*", "kernels"]),
    "runtime": ("src/runtime", ["placement*", "engine*", "profiler*"]),
    "autograd": ("src/autograd", ["runtime*"]),
    "nn": ("src/nn", ["autograd*"]),
    "optim": ("src/optim", ["nn*"]),
    "models": ("src/models", ["optim*"]),
    "tools": ("tools", ["models*"]),
}
BACKENDS = {"cpu", "sim", "cuda"}

# The one file outside src/backends that names a backend.
BACKEND_LIST = "src/runtime/builtin_backends.cpp"

# Each header of include/ferry, by the layer whose concept it declares.
PUBLIC_HEADERS = {
    "base": ["device.h", "dtype.h", "error.h", "shape.h", "units.h"],
    "tensor": ["activations.h", "attention.h", "convolution.h", "indexing.h", "losses.h", "no_grad.h", "normalization.h",
               "ops.h", "recurrent.h", "reductions.h", "scope.h", "tensor.h"],
    "placement": ["device_guard.h"],
    "runtime": ["autocast.h", "profiler.h", "random.h", "runtime.h", "swap.h"],
    "autograd": ["autograd.h", "checkpoint.h"],
    "nn": ["init.h", "nn.h", "nn_layers.h", "nn_module.h", "nn_sequence.h", "safetensors.h"],
    "optim": ["grad_scaler.h", "optim.h", "schedule.h"],
    "models": ["max_batch.h", "models.h", "ferry.h"],
}
PUBLIC_LAYER = {header: layer for layer, headers in PUBLIC_HEADERS.items() for header in headers}

# Code that users could have written: public headers only. It names its own headers from its folder or from the root.
PUBLIC_ONLY = ["examples", "benchmarks", "tools/common"]
# What the programs among them share.
PROGRAM_COMMON = "tools/common"
# Tests look at every layer.
UNRESTRICTED = ["tests"]
# Those that stand in for the CUDA runtime, or measure against it.
CUDA_TESTS = ["tests/cuda", "tests/fake_cudart"]

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|curand|cusparse|cusolver|cufft|cupti|nccl|nvtx|nvml|nvrtc)|^(thrust|cub)/")
STANDARD_HEADER = re.compile(r"^[a-z_]+$")


def closure(layer):
    """The layers that `layer` may include, itself among them."""
    allowed = {layer}
    for name in LAYERS[layer][1]:
        allowed |= closure(name[:-1]) if name.endswith("*") else {name}
    return allowed


ALLOWED = {layer: closure(layer) for layer in LAYERS}


def layer_of(path):
    """The layer whose folder holds `path` (posix, from the root), or None."""
    for layer, (folder, _) in LAYERS.items():
        if path.startswith(folder + "/") and not is_in(path, PUBLIC_ONLY):
            return layer
    return None


def is_in(path, folders):
    return any(path.startswith(folder + "/") for folder in folders)


def target_of(style, included):
    """(kind, layer) of an included name; kind: public, internal, foreign, relative."""
    if included.startswith("ferry/"):
        return "public", PUBLIC_LAYER.get(included.removeprefix("ferry/"))
    layer = layer_of(included)
    if layer:
        return "internal", layer
    if is_in(included, PUBLIC_ONLY + UNRESTRICTED):
        return "internal", None
    return ("foreign" if style == "<" else "relative"), None


def problem_of_public_header(path, included, kind, layer):
    own = PUBLIC_LAYER[path.removeprefix("include/ferry/")]
    if kind == "public":
        if layer not in ALLOWED[own]:
            return f"a public header of layer {own} includes layer {layer} (<{included}>)"
        return None
    if kind == "foreign" and STANDARD_HEADER.match(included):
        return None
    return f"a public header includes {included}; only standard and public headers may be"


def problem_of_layer(path, own, included, layer):
    if layer in ALLOWED[own]:
        return None
    if layer in BACKENDS and path == BACKEND_LIST:
        return None
    if layer in BACKENDS:
        return f"names the backend {layer} ({included}); outside the backends only {BACKEND_LIST} may"
    return f"layer {own} includes layer {layer} ({included})"


def problem_of(root, path, style, included):
    """Why `path` may not include `included`, or None."""
    kind, layer = target_of(style, included)
    if is_in(path, PUBLIC_ONLY) and (root / path.split("/")[0] / included).is_file():
        return None
    if CUDA_HEADER.match(included) and layer_of(path) != "cuda" and not is_in(path, CUDA_TESTS):
        return f"CUDA header {included} outside src/backends/cuda"
    if kind == "relative":
        return f'"{included}" is not named from the root of the repository'
    if kind == "public" and layer is None:
        return f"unknown public header {included}: add it to PUBLIC_HEADERS in scripts/check_includes.py"
    if path.startswith("include/ferry/"):
        return problem_of_public_header(path, included, kind, layer)
    if is_in(path, UNRESTRICTED) or kind == "foreign":
        return None
    if is_in(path, PUBLIC_ONLY):
        folder = next(folder for folder in PUBLIC_ONLY if is_in(path, [folder]))
        if kind == "public" or is_in(included, [folder, PROGRAM_COMMON]):
            return None
        return f"{folder} may include public headers only, not {included}"
    if layer_of(path) == "tools" and is_in(included, [PROGRAM_COMMON]):
        return None
    if layer is None:
        return f"includes {included}, which only its own folder may include"
    return problem_of_layer(path, layer_of(path), included, layer)


def problem_of_place(path):
    """Why no rule covers `path` itself, or None."""
    if path.startswith("include/"):
        if path.removeprefix("include/ferry/") not in PUBLIC_LAYER:
            return "unknown public header: add it to PUBLIC_HEADERS in scripts/check_includes.py"
    elif not layer_of(path) and not is_in(path, PUBLIC_ONLY + UNRESTRICTED):
        return "belongs to no layer: add its folder to LAYERS in scripts/check_includes.py"
    return None


def sources(root):
    for top in ["include", "src", "placement", "swap", "profiler", "tools", "examples", "benchmarks", "tests"]:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def check(root):
    """All violations under `root`, as lines "file:line: reason", and the number of files read."""
    problems = []
    count = 0
    for file in sources(root):
        count += 1
        path = file.relative_to(root).as_posix()
        if reason := problem_of_place(path):
            problems.append(f"{path}:1: {reason}")
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            if match := INCLUDE.match(line):
                if reason := problem_of(root, path, match[1], match[2]):
                    problems.append(f"{path}:{number}: {reason}")
    return problems, count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default_root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=default_root, help="tree to check (default: this one)")
    root = parser.parse_args().root
    problems, count = check(root)
    if count == 0:
        parser.error(f"no sources under {root}")
    for problem in problems:
        print(problem)
    print(f"{count} files, {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
