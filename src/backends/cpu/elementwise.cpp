#include "src/backends/cpu/elementwise.h"

#include "src/backends/cpu/strided.h"
#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

template <class Loops>
void check_has_loops(const KernelContext& context, const Loops& loops) {
  FERRY_CHECK(loops.flat != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op,
              name_of(context.in(0).dtype));
}

void run_flat_in_parallel(const BinaryLoops& loops, std::int64_t count, const TensorView& y, const TensorView& a,
                          const TensorView& b) {
  const std::int64_t y_size = size_of(y.dtype), size = size_of(a.dtype);
  parallel_for(count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    loops.flat(end - begin, y.as<std::byte>() + begin * y_size, a.as<std::byte>() + begin * size,
               b.as<std::byte>() + begin * size);
  });
}

void run_strided(const BinaryLoops& loops, const TensorView& y, const TensorView& a, const TensorView& b) {
  const auto walk = make_walk<3>({&y, &a, &b});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 3>& at) {
    loops.strided(n, at[0], at[1], at[2], strides[0], strides[1], strides[2]);
  });
}

void run_strided(const UnaryLoops& loops, const TensorView& y, const TensorView& x, double parameter) {
  const auto walk = make_walk<2>({&y, &x});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 2>& at) {
    loops.strided(n, at[0], at[1], strides[0], strides[1], parameter);
  });
}

}  // namespace

void run_binary(const KernelContext& context, const BinaryTable& table) {
  const TensorView &a = context.in(0), &b = context.in(1), &y = context.out();
  const BinaryLoops& loops = table[static_cast<std::size_t>(a.dtype)];
  check_has_loops(context, loops);
  const std::int64_t count = contiguous_count(y, a, b);
  if (count < 0) return run_strided(loops, y, a, b);
  if (count <= kElementGrain) return loops.flat(count, y.as<std::byte>(), a.as<std::byte>(), b.as<std::byte>());
  run_flat_in_parallel(loops, count, y, a, b);
}

void run_unary(const KernelContext& context, const UnaryTable& table, double parameter) {
  const TensorView &x = context.in(0), &y = context.out();
  const UnaryLoops& loops = table[static_cast<std::size_t>(x.dtype)];
  check_has_loops(context, loops);
  const std::int64_t count = contiguous_count(y, x);
  if (count < 0 || count > kElementGrain) return run_strided(loops, y, x, parameter);
  loops.flat(count, y.as<std::byte>(), x.as<std::byte>(), parameter);
}

}  // namespace ferry::cpu_backend
