#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/backends/cpu/tile_matmul.cpp"
#include "src/backends/cpu/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "src/backends/cpu/parallel.h"
#include "src/backends/cpu/scratch.h"
#include "src/backends/cpu/tile_gemm-inl.h"
#include "src/backends/cpu/tile_matmul.h"
#include "src/base/check.h"

#ifndef FERRY_TILE_MATMUL_LOOP
#define FERRY_TILE_MATMUL_LOOP
namespace ferry::cpu_backend {

// Rows, columns and terms that are computed together; the columns are a multiple of every panel width.
constexpr std::int64_t kTileRows = 128, kTileColumns = 128, kTileDepth = 256;

// Rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of one product.
struct TileMatmulTask {
  const MatmulProblem& problem;
  const std::byte *a, *b;  // of the matrices
  std::byte* y;
  const TensorView& bias;
  std::int64_t first_row, rows, first_column, columns;
};
struct TileMatmulLoops {
  void (*f32)(const TileMatmulTask&);
  void (*f64)(const TileMatmulTask&);
};

}  // namespace ferry::cpu_backend
#endif

HWY_BEFORE_NAMESPACE();
namespace ferry::cpu_backend::HWY_NAMESPACE {

template <class T>
RightTile<T> pack_right(const TileMatmulTask& task, std::int64_t k, std::int64_t depth, T* to) {
  const Steps& steps = task.problem.b;
  const T* const from = reinterpret_cast<const T*>(task.b) + k * steps.row + task.first_column * steps.column;
  if (steps.column == 1) {
    const std::int64_t width = padded_width<T>(task.columns);
    pack_rows(Matrix<const T>{from, steps.row, 1}, depth, task.columns, T(1), to, width);
    return padded_rows<T>(to, width);
  }
  pack_transposed(Matrix<const T>{from, steps.column, steps.row}, task.columns, depth, to);
  return packed_panels<T>(to, depth);
}

template <class T>
void store_tile(const TileMatmulTask& task, const T* tile, std::int64_t width) {
  const T* const bias = task.bias.given ? task.bias.as<const T>() + task.first_column : nullptr;
  for (std::int64_t i = 0; i < task.rows; ++i) {
    const T* const from = tile + i * width;
    T* const to = reinterpret_cast<T*>(task.y) + (task.first_row + i) * task.problem.y.row + task.first_column;
    if (bias == nullptr) {
      std::copy_n(from, task.columns, to);
    } else {
      FERRY_INDEPENDENT
      for (std::int64_t j = 0; j < task.columns; ++j) to[j] = from[j] + bias[j];
    }
  }
}

template <class T>
void multiply_task(const TileMatmulTask& task) {
  const std::int64_t width = padded_width<T>(task.columns), terms = task.problem.k;
  Scratch<T> scratch;
  const auto packed = scratch.add(std::min(terms, kTileDepth) * width), result = scratch.add(task.rows * width);
  scratch.allocate();
  T* const tile = scratch[result];
  const Steps& steps = task.problem.a;
  const T* const a = reinterpret_cast<const T*>(task.a) + task.first_row * steps.row;
  for (std::int64_t k = 0; k < terms; k += kTileDepth) {
    const std::int64_t depth = std::min(kTileDepth, terms - k);
    const RightTile<T> right = pack_right(task, k, depth, scratch[packed]);
    const LeftTile<T> left{a + k * steps.column, steps.row, steps.column};
    if (k == 0) {
      multiply_tile<Store::overwrite>(task.rows, width, depth, left, right, tile, width);
    } else {
      multiply_tile<Store::add>(task.rows, width, depth, left, right, tile, width);
    }
  }
  store_tile(task, tile, width);
}

TileMatmulLoops tile_matmul_loops() { return {multiply_task<float>, multiply_task<double>}; }

}  // namespace ferry::cpu_backend::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferry::cpu_backend {

HWY_EXPORT(tile_matmul_loops);

void tile_matmul(const BatchedMatmul& matmul, DType dtype, const TensorView& bias) {
  static const TileMatmulLoops loops = HWY_DYNAMIC_DISPATCH(tile_matmul_loops)();
  FERRY_CHECK(dtype == DType::f32 || dtype == DType::f64, InvalidArgument, "matmul: no tile loop for {}",
              name_of(dtype));
  const auto loop = dtype == DType::f32 ? loops.f32 : loops.f64;
  constexpr double kGrainFlops = 2e6;
  const MatmulProblem& p = matmul.problem;
  const std::int64_t size = size_of(dtype);
  const std::int64_t row_tiles = (p.m + kTileRows - 1) / kTileRows,
                     column_tiles = (p.n + kTileColumns - 1) / kTileColumns;
  const std::int64_t tasks = matmul.outer.size() * p.batch * row_tiles * column_tiles;
  const double flops =
      2.0 * static_cast<double>(std::min(p.m, kTileRows) * std::min(p.n, kTileColumns)) * static_cast<double>(p.k);
  const auto grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(kGrainFlops / (flops + 1)));
  parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t column = i % column_tiles * kTileColumns, row = i / column_tiles % row_tiles * kTileRows;
      const std::int64_t matrix = i / column_tiles / row_tiles;
      const BatchAxes::Axis at = matmul.outer.offsets(matrix / p.batch);
      const std::int64_t inner = matrix % p.batch;
      loop({.problem = p,
            .a = matmul.a + (at.a + inner * p.a.batch) * size,
            .b = matmul.b + (at.b + inner * p.b.batch) * size,
            .y = matmul.y + (at.y + inner * p.y.batch) * size,
            .bias = bias,
            .first_row = row,
            .rows = std::min(kTileRows, p.m - row),
            .first_column = column,
            .columns = std::min(kTileColumns, p.n - column)});
    }
  });
}

}  // namespace ferry::cpu_backend
#endif
