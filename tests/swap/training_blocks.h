// The blocks of random training programs: each maps values a and b, [N, width] f32 of about the size of 1, to another.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <ferry/ops.h>
#include "tests/support/generators.h"

namespace ferry::test {

// What a block asks for when the program is made.
struct BlockParameter {
  Shape shape;
  double low = 0, high = 0;  // of the first values
  DType dtype = DType::f32;
  bool shareable = true;  // two blocks may use one parameter of this shape
};

// One run of a block.
struct BlockCall {
  Tensor a, b;  // [rows, width]
  std::vector<Tensor> parameters, buffers;
  // Same in each run of the block in this step: what is drawn from a copy of it is the same when the block runs again.
  Random random;
  std::uint64_t block_seed = 0;  // the same in all steps
  std::int64_t rows = 0, width = 0;
  int step = 0;

  std::int64_t channels() const { return width / 16; }
  Shape value_shape() const { return {rows, width}; }
  // [rows, width] as images [rows, channels, 4, 4], a view.
  Tensor image(const Tensor& value) const { return reshape(value, {rows, channels(), 4, 4}); }
  Tensor value(const Tensor& any) const { return reshape(any, value_shape()); }
  // Whole numbers in [0, bound).
  Tensor indices(const Shape& shape, std::int64_t bound);
};

struct BlockKind {
  std::string_view name;
  Tensor (*run)(BlockCall call);
  std::vector<BlockParameter> (*parameters)(std::int64_t width) = nullptr;  // null: none
  std::vector<BlockParameter> (*buffers)(std::int64_t width) = nullptr;     // no gradient, written by the block
};

// Elementwise ops, views, in-place ops, control flow; layers with parameters.
std::span<const BlockKind> plain_blocks();
std::span<const BlockKind> layer_blocks();
const std::vector<BlockKind>& block_kinds();

}  // namespace ferry::test
