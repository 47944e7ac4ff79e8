// What the pieces of an op call cost, on ferry alone: for finding out where time goes. Not part of scripts/bench.
//
//   build/release/bin/bench_micro --benchmark_filter=Add
#include <benchmark/benchmark.h>
#include <ferry/ferry.h>

namespace {

using ferry::Tensor;

Tensor host(const ferry::Shape& shape) {
  const ferry::DeviceGuard<ferry::cpu> guard;
  return ferry::ones(shape);
}

void create(benchmark::State& state) {
  const ferry::DeviceGuard<ferry::cpu> guard;
  for (auto _ : state) benchmark::DoNotOptimize(ferry::zeros({state.range(0)}));
}
BENCHMARK(create)->Arg(8)->Arg(1 << 16)->Arg(1 << 22);

void add(benchmark::State& state) {
  const ferry::NoGrad no_grad;
  const ferry::DeviceGuard<ferry::cpu> guard;
  const Tensor a = host({state.range(0)}), b = host({state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
  state.SetBytesProcessed(state.iterations() * state.range(0) * 12);
}
BENCHMARK(add)->Arg(8)->Arg(1 << 16)->Arg(1 << 22);

void add_with_gradient(benchmark::State& state) {
  const ferry::DeviceGuard<ferry::cpu> guard;
  const Tensor a = host({8}).set_requires_grad(), b = host({8});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_with_gradient);

void add_with_profiler(benchmark::State& state) {
  const ferry::NoGrad no_grad;
  const ferry::DeviceGuard<ferry::cpu> guard;
  const Tensor a = host({8}), b = host({8});
  const ferry::Profiler profiler;
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(add_with_profiler)->Iterations(200'000);

// Allocation, placement, the virtual clock and the queue of a simulated GPU, without values.
void simulated_add(benchmark::State& state) {
  ferry::Runtime runtime({.device = "sim:rtx2080ti", .values = false});
  const ferry::NoGrad no_grad;
  const Tensor a = ferry::ones({state.range(0)}), b = ferry::ones({state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
}
BENCHMARK(simulated_add)->Arg(8)->Arg(1 << 22);

void device_guard(benchmark::State& state) {
  for (auto _ : state) {
    const ferry::DeviceGuard<ferry::cpu> guard;
    benchmark::DoNotOptimize(&guard);
  }
}
BENCHMARK(device_guard);

}  // namespace

BENCHMARK_MAIN();
