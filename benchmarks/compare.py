#!/usr/bin/env python3
"""Runs ferry's benchmarks side by side with libtorch's.

Both sides are resident processes that time one batch at a time on request, never both at once: ferry, libtorch, ferry,
libtorch, … so that both see the same moods of the machine. Figures are medians over the rounds, a ratio is ferry's
median over libtorch's. Exit status: 0 done, 1 a benchmark failed, 2 usage.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

# name: (unit, nanoseconds a unit, operations a run, libtorch's variants, of which the fastest counts; None: no peer)
BENCHMARKS = {
    "add8": ("ns", 1, 1, ["add8"]),
    "chain100": ("ns per add", 1, 100, ["chain100"]),
    "embedding_step": ("ms", 1e6, 1, ["embedding_step"]),
    "conv_forward_backward": ("ms", 1e6, 1, ["conv_forward_backward", "conv_forward_backward/channels_last"]),
    "matmul": ("ms", 1e6, 1, ["matmul"]),
    "layer_norm": ("ms", 1e6, 1, ["layer_norm"]),
    "softmax": ("ms", 1e6, 1, ["softmax"]),
    "table_creation": ("ms", 1e6, 1, ["table_creation"]),
    "adamw": ("ms", 1e6, 1, ["adamw"]),
    "attention": ("ms", 1e6, 1, ["attention"]),
    "lstm": ("ms", 1e6, 1, ["lstm"]),
    "transformer_layer": ("ms", 1e6, 1, ["transformer_layer", "transformer_layer/module"]),
    "device_guard": ("ns", 1, 1, None),
    "profiler_event": ("ns", 1, 1, None),
}

# A batch is long enough that clock and wake-ups do not count, and short enough that rounds alternate quickly.
BATCH_NANOSECONDS = 100e6
MAX_BATCH = 100_000
# Benchmarks whose single run takes seconds get fewer rounds.
LONG_BENCHMARK_SECONDS = 60
MIN_ROUNDS = 3
# The other side's threads have stopped spinning by then.
SETTLE_SECONDS = 0.05

TABLE_BEGIN = "<!-- table -->"
TABLE_END = "<!-- /table -->"


class BenchmarkError(Exception):
    pass


class Worker:
    """A benchmark process; see benchmarks/worker.h for what it understands."""

    def __init__(self, program, environment):
        self.program = program
        self.process = subprocess.Popen([program], env=environment, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, name, count):
        """Nanoseconds that `count` runs of `name` take."""
        try:
            self.process.stdin.write(f"run {name} {count}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise BenchmarkError(f"{self.program.name} ended with status {self.process.wait()} in {name}")
        if answer.startswith("error"):
            raise BenchmarkError(f"{self.program.name}: {name}: {answer.removeprefix('error ')}")
        return int(answer)

    def batch_size(self, name):
        """How many runs fill a batch. Also the warm-up."""
        count = 1
        while True:
            elapsed = max(self.run(name, count), 1)
            wanted = max(1, min(MAX_BATCH, int(count * BATCH_NANOSECONDS / elapsed)))
            if wanted <= 2 * count:
                return wanted
            count = min(wanted, 10 * count)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def environments():
    """The environments of ferry's and of libtorch's process."""
    common = dict(os.environ)
    common.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    peer = dict(common)
    # OpenBLAS picks the kernels for this CPU unless it is told otherwise.
    for name in ["OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"]:
        peer.pop(name, None)
    peer["OPENBLAS_NUM_THREADS"] = common["OMP_NUM_THREADS"]
    # A malloc that keeps its pages: otherwise first touches of fresh pages dominate libtorch's large results.
    peer["LD_PRELOAD"] = "libjemalloc.so.2"
    peer["MALLOC_CONF"] = "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always"
    return common, peer


def measure(name, ferry, peer, rounds):
    """The result of one benchmark as the JSON line's dictionary."""
    unit, scale, operations, variants = BENCHMARKS[name]
    sides = [(ferry, name)] + [(peer, variant) for variant in variants or [] if peer]
    times = {side: [] for side in sides}
    sizes = {}
    for side in sides:
        time.sleep(SETTLE_SECONDS)
        sizes[side] = side[0].batch_size(side[1])
    begin = time.monotonic()
    for done in range(rounds):
        if done >= MIN_ROUNDS and time.monotonic() - begin > LONG_BENCHMARK_SECONDS:
            break
        for side in sides:
            time.sleep(SETTLE_SECONDS)
            times[side].append(side[0].run(side[1], sizes[side]) / sizes[side] / operations / scale)
    medians = [statistics.median(times[side]) for side in sides]
    best_peer = min(medians[1:], default=None)
    return {"name": name, "ferry": medians[0], "peer": best_peer,
            "ratio": medians[0] / best_peer if best_peer else None, "unit": unit}


def figure(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "–"
    digits = max(0, 2 - len(str(int(value))) + 1) if value >= 1 else 3
    return f"{value:.{digits}f}"


def table(results):
    lines = ["| benchmark | ferry | libtorch | ratio | unit |", "| --- | ---: | ---: | ---: | --- |"]
    for result in results:
        cells = [result["name"], figure(result["ferry"]), figure(result["peer"])]
        ratio = "–" if result["ratio"] is None else f"{result['ratio']:.2f}"
        lines.append("| " + " | ".join(cells + [ratio, result["unit"]]) + " |")
    return "\n".join(lines)


def update_readme(readme, results):
    text = readme.read_text(encoding="utf-8")
    begin, end = text.index(TABLE_BEGIN) + len(TABLE_BEGIN), text.index(TABLE_END)
    readme.write_text(f"{text[:begin]}\n{table(results)}\n{text[end:]}", encoding="utf-8")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", metavar="REGEX", type=re.compile, default=re.compile(""),
                        help="only benchmarks whose name matches")
    parser.add_argument("--json", metavar="FILE", type=argparse.FileType("w"), help="write one JSON line a benchmark")
    parser.add_argument("--rounds", type=int, default=11, help="batches a side (default: %(default)s; fewer where one takes seconds)")
    parser.add_argument("--without-peer", action="store_true", help="measure ferry alone")
    parser.add_argument("--update-readme", action="store_true", help="put the table into benchmarks/README.md")
    parser.add_argument("--programs", metavar="FOLDER", type=pathlib.Path, required=True,
                        help="where bench_ferry and, if built, bench_libtorch are")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    arguments.names = [name for name in BENCHMARKS if arguments.filter.search(name)]
    if not arguments.names:
        parser.error(f"no benchmark matches; there are: {', '.join(BENCHMARKS)}")
    if arguments.update_readme and len(arguments.names) < len(BENCHMARKS):
        parser.error("--update-readme needs all benchmarks")
    return arguments


def run_all(arguments, ferry, peer):
    results = []
    failed = False
    for name in arguments.names:
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            results.append(measure(name, ferry, peer, arguments.rounds))
        except BenchmarkError as error:
            print(f"bench: {error}", file=sys.stderr)
            failed = True
            continue
        if arguments.json:
            arguments.json.write(json.dumps(results[-1]) + "\n")
            arguments.json.flush()
    return results, failed


def main():
    arguments = parse_arguments()
    ferry_environment, peer_environment = environments()
    ferry = Worker(arguments.programs / "bench_ferry", ferry_environment)
    peer_program = arguments.programs / "bench_libtorch"
    peer = None
    if not arguments.without_peer:
        if peer_program.exists():
            peer = Worker(peer_program, peer_environment)
        else:
            print("bench: bench_libtorch is not built; measuring ferry alone", file=sys.stderr)
    try:
        results, failed = run_all(arguments, ferry, peer)
    finally:
        for worker in [ferry, peer]:
            if worker:
                worker.close()
    print(table(results))
    if arguments.update_readme and not failed:
        update_readme(pathlib.Path(__file__).with_name("README.md"), results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
