// The indexing ops' parameters and contracts with the kernels (terms as in src/ops/attributes.h), and their schemas.
#pragma once

#include <ferry/indexing.h>
#include "src/ops/op_schema.h"

namespace ferry::ops {

// gather: (x any dtype, index i64 or i32 dense, x's rank) → y of index's shape,
//   y[…, i, …] = x[…, index[…, i, …], …] along axis. An index outside [0, extent) is InvalidArgument.
// gather_backward: (dy, index dense) → dx without gaps, zero but dx[…, index[…, i, …], …] += dy[…, i, …], i ascending.
// index_select: (x any dtype, indices i64 or i32 [n] dense) → y[…, i, …] = x[…, indices[i], …].
// index_select_backward: (dy, indices) → dx without gaps, zero but dx[…, indices[i], …] += dy[…, i, …], i ascending.
struct GatherAttributes {
  int axis = 0;    // already non-negative
  Shape result{};  // for the backward ops' schemas: x's shape
};
extern const OpSchema kGather, kGatherBackward, kIndexSelect, kIndexSelectBackward;

// where: (condition bool, a, b any one dtype) → y = condition ? a : b.
// masked_fill: (x any dtype, mask bool) → y = mask == filled ? value : x.
struct MaskedFillAttributes {
  double value = 0;
  bool filled = true;
};
extern const OpSchema kWhere, kMaskedFill;

// pad: (x any dtype) → y, x with begins[i] and ends[i] elements before and after along axis i.
// pad_backward: (dy) → dx, each element the sum of those that were made from it; modes reflect and replicate only.
struct PadAttributes {
  Dims begins, ends;
  PadMode mode = PadMode::constant;
  double value = 0;
  Shape result{};  // for pad_backward's schema: x's shape
};
extern const OpSchema kPad, kPadBackward;

// flip: slice's kernel with steps of -1, from SliceAttributes.
extern const OpSchema kFlip;

// split: views, without a kernel. What its gradient needs to know of parts that nothing flowed to.
struct SplitAttributes {
  static constexpr std::size_t kMaxSizes = 32;

  int axis = 0;
  std::int64_t equal = 0;  // size of every part; 0: they differ, and there are at most kMaxSizes
  std::int64_t count = 0;
  std::int64_t sizes[kMaxSizes] = {};
};
extern const OpSchema kSplit;

}  // namespace ferry::ops
