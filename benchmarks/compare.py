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
import typing

RESNET50 = ["resnet50_step", "resnet50_step/channels_last"]


class Benchmark(typing.NamedTuple):
    unit: str
    scale: float  # nanoseconds a unit; of memory: bytes
    operations: int = 1  # a run
    peer: list = []  # the other side's runs, of which the best counts
    run: str = ""  # ferry's, where it is not called like the benchmark
    peer_is_ferry: bool = False
    memory: bool = False  # the peak of a process that does nothing else, instead of time


BENCHMARKS = {
    "add8": Benchmark("ns", 1, peer=["add8"]),
    "chain100": Benchmark("ns per add", 1, operations=100, peer=["chain100"]),
    "embedding_step": Benchmark("ms", 1e6, peer=["embedding_step"]),
    "conv_forward_backward": Benchmark("ms", 1e6, peer=["conv_forward_backward",
                                                        "conv_forward_backward/channels_last"]),
    "matmul": Benchmark("ms", 1e6, peer=["matmul"]),
    "layer_norm": Benchmark("ms", 1e6, peer=["layer_norm"]),
    "softmax": Benchmark("ms", 1e6, peer=["softmax"]),
    "table_creation": Benchmark("ms", 1e6, peer=["table_creation"]),
    "adamw": Benchmark("ms", 1e6, peer=["adamw"]),
    "attention": Benchmark("ms", 1e6, peer=["attention"]),
    "lstm": Benchmark("ms", 1e6, peer=["lstm"]),
    "transformer_layer": Benchmark("ms", 1e6, peer=["transformer_layer", "transformer_layer/module"]),
    "resnet50_step": Benchmark("ms", 1e6, peer=RESNET50),
    "resnet50_memory": Benchmark("MiB", 2**20, peer=RESNET50, run="resnet50_step", memory=True),
    "resnet50_bf16": Benchmark("ms", 1e6, peer=["resnet50_step"], peer_is_ferry=True),
    "device_guard": Benchmark("ns", 1),
    "profiler_event": Benchmark("ns", 1),
}

# A batch is long enough that clock and wake-ups do not count, and short enough that rounds alternate quickly.
BATCH_NANOSECONDS = 100e6
MAX_BATCH = 100_000
# Benchmarks whose single run takes seconds get fewer rounds.
LONG_BENCHMARK_SECONDS = 60
MIN_ROUNDS = 3
# Of a process whose memory is measured: caches and pools have what they need by then.
MEMORY_RUNS = 3
# The other side's threads have stopped spinning by then.
SETTLE_SECONDS = 0.05

TABLE_BEGIN = "<!-- table -->"
TABLE_END = "<!-- /table -->"


class BenchmarkError(Exception):
    pass


class Worker:
    """A benchmark process; see benchmarks/worker.h for what it understands."""

    def __init__(self, program, environment):
        self.program, self.environment = program, environment
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

    def another(self):
        """A fresh process of the same program."""
        return Worker(self.program, self.environment)

    def peak_bytes(self):
        """The most resident memory the process has had (VmHWM of proc(5))."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", status)[1])

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


def times(sides, scale, operations, rounds):
    """The median time of a run, of each side."""
    taken = [[] for _ in sides]
    sizes = []
    for worker, run in sides:
        time.sleep(SETTLE_SECONDS)
        sizes.append(worker.batch_size(run))
    begin = time.monotonic()
    for done in range(rounds):
        if done >= MIN_ROUNDS and time.monotonic() - begin > LONG_BENCHMARK_SECONDS:
            break
        for i, (worker, run) in enumerate(sides):
            time.sleep(SETTLE_SECONDS)
            taken[i].append(worker.run(run, sizes[i]) / sizes[i] / operations / scale)
    return [statistics.median(each) for each in taken]


def peaks(sides, scale):
    """The peak memory of a process of each side's own."""
    result = []
    for worker, run in sides:
        own = worker.another()
        try:
            own.run(run, MEMORY_RUNS)
            result.append(own.peak_bytes() / scale)
        finally:
            own.close()
    return result


def measure(name, ferry, peer, rounds):
    """The result of one benchmark as the JSON line's dictionary."""
    benchmark = BENCHMARKS[name]
    # One process would set up its benchmarks anew in each round.
    second = ferry.another() if benchmark.peer_is_ferry else None
    sides = [(ferry, benchmark.run or name)]
    sides += [(second or peer, run) for run in benchmark.peer if second or peer]
    try:
        if benchmark.memory:
            figures = peaks(sides, benchmark.scale)
        else:
            figures = times(sides, benchmark.scale, benchmark.operations, rounds)
    finally:
        if second:
            second.close()
    best_peer = min(figures[1:], default=None)
    return {"name": name, "ferry": figures[0], "peer": best_peer,
            "ratio": figures[0] / best_peer if best_peer else None, "unit": benchmark.unit}


def figure(value):
    """Three significant digits, without an exponent."""
    if value is None:
        return "–"
    digits = max(0, 2 - len(str(int(value))) + 1) if value >= 1 else 3
    return f"{value:.{digits}f}"


def table(results):
    lines = ["| benchmark | ferry | peer | ratio | unit |", "| --- | ---: | ---: | ---: | --- |"]
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
