#include "src/backends/cpu/elementwise.h"

#include "src/backends/cpu/half.h"
#include "src/backends/cpu/strided.h"
#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::int64_t kFloatSize = sizeof(float);

template <class Table>
const auto& loops_for(const KernelContext& context, const Table& table, DType dtype) {
  const auto& loops = table[static_cast<std::size_t>(dtype)];
  FERRY_CHECK(loops.flat != nullptr, InvalidArgument, "{}: no host kernel for {}", context.op,
              name_of(context.in(0).dtype));
  return loops;
}

void run_flat_in_parallel(const BinaryLoops& loops, std::int64_t count, const TensorView& y, const TensorView& a,
                          const TensorView& b, double parameter) {
  const std::int64_t y_size = size_of(y.dtype), size = size_of(a.dtype);
  parallel_for(count, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    loops.flat(end - begin, y.as<std::byte>() + begin * y_size, a.as<std::byte>() + begin * size,
               b.as<std::byte>() + begin * size, parameter);
  });
}

void run_strided(const BinaryLoops& loops, const TensorView& y, const TensorView& a, const TensorView& b,
                 double parameter) {
  const auto walk = make_walk<3>({&y, &a, &b});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 3>& at) {
    loops.strided(n, at[0], at[1], at[2], strides[0], strides[1], strides[2], parameter);
  });
}

void run_strided(const UnaryLoops& loops, const TensorView& y, const TensorView& x, double parameter) {
  const auto walk = make_walk<2>({&y, &x});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 2>& at) {
    loops.strided(n, at[0], at[1], strides[0], strides[1], parameter);
  });
}

// 16-bit operands by the float loops; y is of their dtype or bool.
void run_half(const BinaryLoops& loops, const TensorView& y, const TensorView& a, const TensorView& b,
              double parameter) {
  const auto walk = make_walk<3>({&y, &a, &b});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 3>& at) {
    alignas(64) float wide[2][kHalfPiece];
    auto* const wide_a = reinterpret_cast<std::byte*>(wide[0]);
    auto* const wide_b = reinterpret_cast<std::byte*>(wide[1]);
    for (std::int64_t begin = 0; begin < n; begin += kHalfPiece) {
      const std::int64_t count = std::min(kHalfPiece, n - begin);
      std::byte* const to = at[0] + begin * strides[0];
      widen_half(a.dtype, count, wide[0], at[1] + begin * strides[1], strides[1]);
      widen_half(a.dtype, count, wide[1], at[2] + begin * strides[2], strides[2]);
      if (is_half(y.dtype)) {
        loops.flat(count, wide_a, wide_a, wide_b, parameter);
        narrow_half(y.dtype, count, to, wide[0], strides[0]);
      } else {
        loops.strided(count, to, wide_a, wide_b, strides[0], kFloatSize, kFloatSize, parameter);
      }
    }
  });
}

void run_half(const UnaryLoops& loops, const TensorView& y, const TensorView& x, double parameter) {
  const auto walk = make_walk<2>({&y, &x});
  const auto strides = walk.inner_strides();
  parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 2>& at) {
    alignas(64) float wide[kHalfPiece];
    auto* const wide_x = reinterpret_cast<std::byte*>(wide);
    for (std::int64_t begin = 0; begin < n; begin += kHalfPiece) {
      const std::int64_t count = std::min(kHalfPiece, n - begin);
      widen_half(x.dtype, count, wide, at[1] + begin * strides[1], strides[1]);
      loops.flat(count, wide_x, wide_x, parameter);
      narrow_half(y.dtype, count, at[0] + begin * strides[0], wide, strides[0]);
    }
  });
}

template <class T>
bool holds_zero(const TensorView& view) {
  const auto walk = make_walk<1>({&view});
  const std::int64_t step = walk.inner_strides()[0] / std::int64_t{sizeof(T)};
  bool found = false;
  walk_range(walk, 0, walk.count, [&](std::int64_t n, const std::array<std::byte*, 1>& at) {
    for (std::int64_t i = 0; i < n; ++i) found |= reinterpret_cast<const T*>(at[0])[i * step] == 0;
  });
  return found;
}

}  // namespace

void run_binary(const KernelContext& context, const BinaryTable& table, double parameter) {
  const TensorView &a = context.in(0), &b = context.in(1), &y = context.out();
  if (is_half(a.dtype)) return run_half(loops_for(context, table, DType::f32), y, a, b, parameter);
  const BinaryLoops& loops = loops_for(context, table, a.dtype);
  const std::int64_t count = contiguous_count(y, a, b);
  if (count < 0) return run_strided(loops, y, a, b, parameter);
  if (count <= kElementGrain)
    return loops.flat(count, y.as<std::byte>(), a.as<std::byte>(), b.as<std::byte>(), parameter);
  run_flat_in_parallel(loops, count, y, a, b, parameter);
}

void run_unary(const KernelContext& context, const UnaryTable& table, double parameter) {
  const TensorView &x = context.in(0), &y = context.out();
  if (is_half(x.dtype)) return run_half(loops_for(context, table, DType::f32), y, x, parameter);
  const UnaryLoops& loops = loops_for(context, table, x.dtype);
  const std::int64_t count = contiguous_count(y, x);
  if (count < 0 || count > kElementGrain) return run_strided(loops, y, x, parameter);
  loops.flat(count, y.as<std::byte>(), x.as<std::byte>(), parameter);
}

void check_divisor(const KernelContext& context, const TensorView& divisor) {
  const bool zero = divisor.dtype == DType::i64   ? holds_zero<std::int64_t>(divisor)
                    : divisor.dtype == DType::i32 ? holds_zero<std::int32_t>(divisor)
                    : divisor.dtype == DType::u8  ? holds_zero<std::uint8_t>(divisor)
                                                  : false;
  FERRY_CHECK(!zero, InvalidArgument, "{}: the {} divisor of shape {} holds 0, and integers have no quotient by 0",
              context.op, name_of(divisor.dtype), to_string(divisor.shape));
}

}  // namespace ferry::cpu_backend
