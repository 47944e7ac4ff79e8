#include "src/backends/cpu/reduce.h"

#include <cstdlib>
#include <vector>

#include "src/backends/cpu/strided.h"
#include "src/base/check.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::int64_t kTotal = 8;

struct Plan {
  ReduceLoops loops;
  double divisor;
  StridedWalk<2> kept;     // x and y over the outputs
  StridedWalk<1> reduced;  // x over what one output combines
};

Plan make_plan(const KernelContext& context, const ReduceLoops& loops, double divisor) {
  const TensorView &x = context.in(0), &y = context.out();
  const Dims& is_reduced = context.attributes.as<ops::ReduceAttributes>().reduced;
  TensorView kept = x, reduced = x, target = y;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    (is_reduced[axis] != 0 ? kept : reduced).shape[axis] = 1;
    if (is_reduced[axis] != 0) target.shape[axis] = 1;
  }
  return {loops, divisor, make_walk<2>({&kept, &target}), make_walk<1>({&reduced})};
}

// Calls body(n, x) for the elements [begin, end) of what the output whose first element is `x` combines.
template <class Body>
void for_reduced(const Plan& plan, const std::byte* x, std::int64_t begin, std::int64_t end, const Body& body) {
  if (plan.reduced.rank <= 1) return body(end - begin, x + begin * plan.reduced.inner_strides()[0]);
  const std::byte* const base = plan.reduced.data[0];
  walk_range(plan.reduced, begin, end,
             [&](std::int64_t n, const std::array<std::byte*, 1>& at) { body(n, x + (at[0] - base)); });
}

std::int64_t chunks_of(std::int64_t count, std::int64_t size) {
  return std::max<std::int64_t>(1, (count + size - 1) / size);
}

// Where x is contiguous along a reduced axis: each output combines runs along it.
void reduce_rows(const Plan& plan) {
  const std::int64_t count = plan.reduced.count, chunks = chunks_of(count, kRun);
  const std::int64_t stride = plan.reduced.inner_strides()[0];
  const auto reduce_chunk = [&](const std::byte* x, std::int64_t chunk, std::byte* total) {
    plan.loops.reset(1, total);
    for_reduced(plan, x, chunk * kRun, std::min(count, (chunk + 1) * kRun),
                [&](std::int64_t n, const std::byte* row) { plan.loops.row(n, row, stride, total); });
  };
  const std::int64_t grain =
      std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, std::min(count, kRun)));
  const auto steps = plan.kept.inner_strides();
  std::vector<std::byte> partials(static_cast<std::size_t>(chunks > 1 ? plan.kept.count * chunks * kTotal : 0));
  if (chunks > 1) {
    parallel_for(plan.kept.count * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        walk_range(plan.kept, task / chunks, task / chunks + 1, [&](std::int64_t, const std::array<std::byte*, 2>& at) {
          reduce_chunk(at[0], task % chunks, partials.data() + task * kTotal);
        });
      }
    });
  }
  parallel_for(plan.kept.count, chunks > 1 ? kElementGrain : grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t output = begin;
    walk_range(plan.kept, begin, end, [&](std::int64_t n, const std::array<std::byte*, 2>& at) {
      for (std::int64_t i = 0; i < n; ++i, ++output) {
        alignas(kTotal) std::byte total[kTotal];
        if (chunks > 1) {
          plan.loops.reset(1, total);
          for (std::int64_t c = 0; c < chunks; ++c) {
            plan.loops.combine(1, total, partials.data() + (output * chunks + c) * kTotal);
          }
        } else {
          reduce_chunk(at[0] + i * steps[0], 0, total);
        }
        plan.loops.finish(1, total, at[1] + i * steps[1], 0, plan.divisor);
      }
    });
  });
}

// Where x is contiguous along a kept axis: outputs side by side, each combining runs down the reduced axes.
void reduce_columns(const Plan& plan) {
  const std::int64_t count = plan.reduced.count, chunks = chunks_of(count, kColumnRun);
  const std::int64_t width = plan.kept.inner(), blocks = chunks_of(width, kColumns);
  const std::int64_t outer = plan.kept.count / width;
  const std::int64_t row_stride = plan.reduced.inner_strides()[0];
  const auto strides = plan.kept.inner_strides();
  // Calls body(n, pointers) with the columns of one block.
  const auto with_block = [&](std::int64_t block, const auto& body) {
    const std::int64_t first = block / blocks * width + block % blocks * kColumns;
    const std::int64_t n = std::min(kColumns, width - block % blocks * kColumns);
    walk_range(plan.kept, first, first + n, body);
  };
  const auto reduce_chunk = [&](std::int64_t n, const std::byte* x, std::int64_t chunk, std::byte* totals) {
    plan.loops.reset(n, totals);
    for_reduced(plan, x, chunk * kColumnRun, std::min(count, (chunk + 1) * kColumnRun),
                [&](std::int64_t rows, const std::byte* from) {
                  plan.loops.columns(n, rows, from, strides[0], row_stride, totals);
                });
  };
  const std::int64_t task_size = std::min(width, kColumns) * std::min(std::max<std::int64_t>(count, 1), kColumnRun);
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / task_size);
  const std::int64_t pitch = std::min(width, kColumns) * kTotal;
  std::vector<std::byte> partials(static_cast<std::size_t>(chunks > 1 ? outer * blocks * chunks * pitch : 0));
  if (chunks > 1) {
    parallel_for(outer * blocks * chunks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        with_block(task / chunks, [&](std::int64_t n, const std::array<std::byte*, 2>& at) {
          reduce_chunk(n, at[0], task % chunks, partials.data() + task * pitch);
        });
      }
    });
  }
  const std::int64_t finish_grain = chunks > 1 ? std::max<std::int64_t>(1, kElementGrain / (kColumns * chunks)) : grain;
  parallel_for(outer * blocks, finish_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      with_block(block, [&](std::int64_t n, const std::array<std::byte*, 2>& at) {
        alignas(64) std::byte totals[kColumns * kTotal];
        if (chunks > 1) {
          plan.loops.reset(n, totals);
          for (std::int64_t c = 0; c < chunks; ++c) {
            plan.loops.combine(n, totals, partials.data() + (block * chunks + c) * pitch);
          }
        } else {
          reduce_chunk(n, at[0], 0, totals);
        }
        plan.loops.finish(n, totals, at[1], strides[1], plan.divisor);
      });
    }
  });
}

}  // namespace

void run_reduction(const KernelContext& context, const ReduceTable& table, double divisor) {
  const ReduceLoops& loops = table[static_cast<std::size_t>(context.in(0).dtype)];
  FERRY_CHECK(loops.row != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op,
              name_of(context.in(0).dtype));
  const Plan plan = make_plan(context, loops, divisor);
  if (plan.kept.count == 0) return;
  const bool columns = plan.kept.rank > 0 && plan.reduced.rank > 0 &&
                       std::abs(plan.kept.inner_strides()[0]) < std::abs(plan.reduced.inner_strides()[0]);
  if (columns) {
    reduce_columns(plan);
  } else {
    reduce_rows(plan);
  }
}

}  // namespace ferry::cpu_backend
