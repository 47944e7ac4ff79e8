#include <cstring>

#include "src/backends/cpu/half.h"
#include "src/backends/cpu/host_memory.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/strided.h"
#include "src/backends/cpu/view_ops.h"
#include "src/kernels/convert.h"

namespace ferry::cpu_backend {
namespace {

using Row2 = std::array<std::byte*, 2>;

using RowLoop = void (*)(std::int64_t n, std::byte* to, const std::byte* from, std::int64_t to_stride,
                         std::int64_t from_stride);  // strides in bytes

template <class To, class From>
void convert_row(std::int64_t n, std::byte* to_bytes, const std::byte* from_bytes, std::int64_t to_stride,
                 std::int64_t from_stride) {
  auto* const to = reinterpret_cast<To*>(to_bytes);
  auto* const from = reinterpret_cast<const From*>(from_bytes);
  if (to_stride == sizeof(To) && from_stride == sizeof(From)) {
    for (std::int64_t i = 0; i < n; ++i) to[i] = kernels::convert<To>(from[i]);
    return;
  }
  const std::int64_t to_step = to_stride / std::int64_t{sizeof(To)};
  const std::int64_t from_step = from_stride / std::int64_t{sizeof(From)};
  for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = kernels::convert<To>(from[i * from_step]);
}

// The widest type of a dtype's kind, which holds all its values.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

struct WideLoops {
  RowLoop widen, from_integer, from_float;
};

template <class T>
constexpr WideLoops kWideLoops = {convert_row<Wide<T>, T>, convert_row<T, std::int64_t>, convert_row<T, double>};

// By dtype, in DType's order.
constexpr WideLoops kWideTable[kDTypeCount] = {
    kWideLoops<float>,        kWideLoops<double>,       kWideLoops<float16>,      kWideLoops<bfloat16>,
    kWideLoops<std::int32_t>, kWideLoops<std::int64_t>, kWideLoops<std::uint8_t>, kWideLoops<bool>};

void copy_converting(const TensorView& y, const TensorView& x) {
  constexpr std::int64_t kFloatSize = sizeof(float), kPiece = 512, kWideSize = 8;
  const auto walk = make_walk<2>({&y, &x});
  const auto strides = walk.inner_strides();
  // The pairs that mixed-precision training converts between at length.
  if (y.dtype == DType::f32 && is_half(x.dtype) && strides[0] == kFloatSize) {
    return parallel_walk(walk, [&](std::int64_t n, const Row2& at) {
      widen_half(x.dtype, n, reinterpret_cast<float*>(at[0]), at[1], strides[1]);
    });
  }
  if (is_half(y.dtype) && x.dtype == DType::f32 && strides[1] == kFloatSize) {
    return parallel_walk(walk, [&](std::int64_t n, const Row2& at) {
      narrow_half(y.dtype, n, at[0], reinterpret_cast<const float*>(at[1]), strides[0]);
    });
  }
  const WideLoops& to = kWideTable[static_cast<int>(y.dtype)];
  const RowLoop narrow = is_floating(x.dtype) ? to.from_float : to.from_integer;
  const RowLoop widen = kWideTable[static_cast<int>(x.dtype)].widen;
  parallel_walk(walk, [&](std::int64_t n, const Row2& at) {
    alignas(64) std::byte wide[kPiece * kWideSize];
    for (std::int64_t begin = 0; begin < n; begin += kPiece) {
      const std::int64_t count = std::min(kPiece, n - begin);
      widen(count, wide, at[1] + begin * strides[1], kWideSize, strides[1]);
      narrow(count, at[0] + begin * strides[0], wide, strides[0], kWideSize);
    }
  });
}

template <class Word>
void copy_row(std::int64_t n, std::byte* to_bytes, const std::byte* from_bytes, std::int64_t to_stride,
              std::int64_t from_stride) {
  constexpr std::int64_t kSize = sizeof(Word);
  if (to_stride == kSize && from_stride == kSize) {
    std::memcpy(to_bytes, from_bytes, static_cast<std::size_t>(n * kSize));
    return;
  }
  convert_row<Word, Word>(n, to_bytes, from_bytes, to_stride, from_stride);
}

// A transposed read walks across memory with each step; a tile of it stays in the first-level cache.
template <class Word>
void copy_tiles(const StridedWalk<2>& walk) {
  constexpr std::int64_t kTile = 32;
  const int outer = walk.rank - 2, inner = walk.rank - 1;
  const std::int64_t rows = walk.extents[outer], columns = walk.extents[inner];
  const std::int64_t row_tiles = (rows + kTile - 1) / kTile;
  StridedWalk<2> planes = walk;
  planes.rank = outer;
  planes.count = walk.count / (rows * columns);
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (kTile * columns));
  parallel_for(planes.count * row_tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t plane = task / row_tiles, first = task % row_tiles * kTile;
      walk_range(planes, plane, plane + 1, [&](std::int64_t, const Row2& at) {
        const std::int64_t last = std::min(rows, first + kTile);
        for (std::int64_t column = 0; column < columns; column += kTile) {
          for (std::int64_t row = first; row < last; ++row) {
            copy_row<Word>(std::min(kTile, columns - column),
                           at[0] + row * walk.strides[outer][0] + column * walk.strides[inner][0],
                           at[1] + row * walk.strides[outer][1] + column * walk.strides[inner][1],
                           walk.strides[inner][0], walk.strides[inner][1]);
          }
        }
      });
    }
  });
}

template <class Word>
void copy_words(const TensorView& y, const TensorView& x) {
  const auto walk = make_walk<2>({&y, &x});
  const auto strides = walk.inner_strides();
  const bool transposed = walk.rank >= 2 && strides[1] > walk.strides[walk.rank - 2][1] && walk.inner() >= 16 &&
                          walk.extents[walk.rank - 2] >= 16;
  if (transposed) return copy_tiles<Word>(walk);
  parallel_walk(walk, [&](std::int64_t n, const Row2& at) { copy_row<Word>(n, at[0], at[1], strides[0], strides[1]); });
}

}  // namespace

void copy_view(const TensorView& y, const TensorView& x) {
  if (x.dtype != y.dtype) return copy_converting(y, x);
  const std::int64_t size = size_of(y.dtype);
  const std::int64_t count = contiguous_count(y, x);
  if (count == 0) return;
  if (count > 0) return copy_host_memory(y.data, x.data, Bytes{count * size});
  switch (size) {
    case 1:
      return copy_words<std::uint8_t>(y, x);
    case 2:
      return copy_words<std::uint16_t>(y, x);
    case 4:
      return copy_words<std::uint32_t>(y, x);
    default:
      return copy_words<std::uint64_t>(y, x);
  }
}

void copy(const KernelContext& context) { copy_view(context.out(), context.in(0)); }
void copy_in_place(const KernelContext& context) { copy_view(context.out(), context.in(1)); }

}  // namespace ferry::cpu_backend
