// Ops that cut tensors up, put them together and pick elements by index or by mask.
//
// Conventions as in ferry/ops.h: negative axes count from the back; bad shapes, dtypes and axes throw ShapeError or
// InvalidArgument naming op, argument and shapes. Indices are i64 or i32 and count from 0, never from the back; one out
// of range throws InvalidArgument naming its position, its value and the bound, and nothing is read. On a simulated or
// real GPU that error comes at the latest when the result is read.
//
// Gradients with respect to repeated indices are added in the order of the indices, whatever the number of threads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <vector>

#include <ferry/ops.h>

namespace ferry {

// Views of x: consecutive parts of `sizes` elements along axis, which they fill. Their gradients are put together in
// one pass. Throws: ShapeError when the sizes do not add up to the extent, InvalidArgument for none.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0,
                          Where where = Where::current());
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, int axis = 0,
                                 Where where = Where::current()) {
  return split(x, std::vector<std::int64_t>(sizes), axis, where);
}
// The same for `count` equal parts. Throws: ShapeError when `count` does not divide the extent.
std::vector<Tensor> split(const Tensor& x, std::int64_t count, int axis = 0, Where where = Where::current());

// Tensors of one shape and dtype along a new axis: k tensors [A, B] stacked at axis 0 give [k, A, B].
Tensor stack(const std::vector<Tensor>& xs, int axis = 0, Where where = Where::current());

// y[…, i, …] = x[…, index[…, i, …], …] along axis, of index's shape. index: x's rank, at most x's extents but along
// axis. (torch.gather)
Tensor gather(const Tensor& x, int axis, const Tensor& index, Where where = Where::current());

// y[…, i, …] = x[…, indices[i], …] along axis. indices: [n] → x's shape with n along axis. (torch.index_select)
Tensor index_select(const Tensor& x, int axis, const Tensor& indices, Where where = Where::current());

// condition ? a : b, elementwise; all three broadcast as NumPy does. condition: bool; a and b: one dtype, any.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where = Where::current());

// x with `value`, converted to x's dtype, where mask (bool, broadcast to x's shape) is true. No gradient flows there.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value, Where where = Where::current());

enum class PadMode : std::uint8_t {
  constant,   // `value` all around
  reflect,    // … c b | a b c | b a …: mirrored at the edge element, which is not repeated; less than the extent
  replicate,  // … a a | a b c | c c …
};
struct PadOptions {
  PadMode mode = PadMode::constant;
  double value = 0;  // of constant
};
// begins[i] elements in front of axis i of x and ends[i] behind it, none negative; one each for every axis of x.
Tensor pad(const Tensor& x, const std::vector<std::int64_t>& begins, const std::vector<std::int64_t>& ends,
           const PadOptions& options = {}, Where where = Where::current());

// A copy of x with the order of elements reversed along `axes`.
Tensor flip(const Tensor& x, const std::vector<int>& axes, Where where = Where::current());

}  // namespace ferry
