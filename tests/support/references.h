// Plain double-precision references of the ops: loops over indices, written for being read, sharing no code with the
// library's kernels.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include <ferry/convolution.h>
#include <ferry/indexing.h>
#include <ferry/ops.h>
#include <ferry/shape.h>

namespace ferry::test {

// Index of image axis 0 (height) or 1 (width) in an option.
inline std::size_t axis_of(int axis) { return static_cast<std::size_t>(axis); }

// A dense row-major array.
struct Array {
  Shape shape;
  std::vector<double> values;

  static Array filled(const Shape& shape, double value);
  double& at(const Dims& index) { return values[position(index)]; }
  double at(const Dims& index) const { return values[position(index)]; }
  std::size_t position(const Dims& index) const;
};

// Calls visit(index) for each index of `shape` in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& visit);

// --- elementwise and movement ---

Array map(const Array& x, const std::function<double(double)>& f);
Array map(const Array& a, const Array& b, const std::function<double(double, double)>& f);  // NumPy broadcasting
Array expanded(const Array& x, const Shape& shape);
Array reshaped(const Array& x, const Shape& shape);
Array permuted(const Array& x, const std::vector<int>& axes);
// y[i] = x[start + i * step]; one start and step for each axis.
Array sliced(const Array& x, const Dims& starts, const Dims& steps, const Shape& shape);
Array concatenated(const std::vector<Array>& xs, int axis);

// --- reduction and linear algebra ---

enum class Reducer { sum, mean, max };
Array reduced(const Array& x, std::vector<int> axes, bool keepdim, Reducer reducer);
Array argmax(const Array& x, int axis);
Array matmul(const Array& a, const Array& b);
// bias: null for none.
Array linear(const Array& x, const Array& weight, const Array* bias);

// --- images, normalisation, losses, embeddings ---

Array conv2d(const Array& x, const Array& weight, const Array* bias, const Conv2dOptions& options);
Array max_pool2d(const Array& x, const Pool2dOptions& options);
Array avg_pool2d(const Array& x, const Pool2dOptions& options);
// Biased statistics of each channel.
std::array<Array, 2> channel_statistics(const Array& x);
Array normalized(const Array& x, const Array& mean, const Array& variance, const Array* gamma, const Array* beta,
                 double epsilon);
Array l2_normalized(const Array& x, int axis, double epsilon);
Array cross_entropy(const Array& logits, const Array& labels);  // one loss a row
Array embedding(const Array& table, const Array& ids);
Array embedding_bag(const Array& table, const Array& ids, const Array& offsets, bool mean);

// --- indexing ---

Array gathered(const Array& x, int axis, const Array& index);
Array index_selected(const Array& x, int axis, const Array& indices);
Array padded(const Array& x, const Dims& begins, const Dims& ends, PadMode mode, double value);

// --- transposed convolution and resampling ---

Array conv_transpose2d(const Array& x, const Array& weight, const Array* bias, const ConvTranspose2dOptions& options);
Array upsample2d(const Array& x, const Upsample2dOptions& options);
Array adaptive_avg_pool2d(const Array& x, const std::array<std::int64_t, 2>& output);

}  // namespace ferry::test
