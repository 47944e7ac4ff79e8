// The ops. Each takes the caller's source line as its last argument, runs on the device that the innermost
// DeviceGuard, else the runtime, says, and brings inputs there by itself.
//
// Shapes are stated as [N, C, H, W]. Bad shapes, dtypes and axes throw ShapeError or InvalidArgument naming the op, the
// argument and the shapes. Negative axes count from the back. "float" means f32, f64, f16 or bf16.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <vector>

#include <ferry/tensor.h>

namespace ferry {

using Where = std::source_location;

// --- creation --------------------------------------------------------------------------------------------------------

Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Where where = Where::current());
Tensor zeros(const Shape& shape, DType dtype = DType::f32, Where where = Where::current());
Tensor ones(const Shape& shape, DType dtype = DType::f32, Where where = Where::current());
Tensor zeros_like(const Tensor& x, Where where = Where::current());
Tensor ones_like(const Tensor& x, Where where = Where::current());
// Elements independent of device and threads: they depend on the runtime's seed and the number drawn before.
Tensor uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = DType::f32,
               Where where = Where::current());
Tensor normal(const Shape& shape, double mean = 0, double stddev = 1, DType dtype = DType::f32,
              Where where = Where::current());
// start, start + step, … below stop (above, for a negative step).
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::i64, Where where = Where::current());

// --- shape and movement ----------------------------------------------------------------------------------------------

// The shape of x as an i64 [rank] tensor in host memory.
Tensor shape(const Tensor& x, Where where = Where::current());
// A copy of x[start : end : step] along `axes`. Negative positions count from the back; beyond the ends is clamped.
// steps > 0.
Tensor slice(const Tensor& x, const std::vector<int>& axes, const std::vector<std::int64_t>& starts,
             const std::vector<std::int64_t>& ends, const std::vector<std::int64_t>& steps = {},
             Where where = Where::current());
// The same with bounds from tensors (i64 or i32 [axes]), which are read in host memory.
Tensor slice(const Tensor& x, const std::vector<int>& axes, const Tensor& starts, const Tensor& ends,
             Where where = Where::current());
// x[offsets : offsets + shape]; without offsets, from the start. A shape tensor is read in host memory.
Tensor crop(const Tensor& x, const Shape& shape, const Shape& offsets = {}, Where where = Where::current());
Tensor crop(const Tensor& x, const Tensor& shape, const Shape& offsets = {}, Where where = Where::current());
Tensor concat(const std::vector<Tensor>& xs, int axis, Where where = Where::current());

// Views: share x's storage. reshape copies when the new shape has no strides over x's; one extent may be -1.
Tensor reshape(const Tensor& x, const Shape& shape, Where where = Where::current());
Tensor flatten(const Tensor& x, int first_axis = 0, Where where = Where::current());
Tensor transpose(const Tensor& x, int axis0 = -2, int axis1 = -1, Where where = Where::current());
Tensor permute(const Tensor& x, const std::vector<int>& axes, Where where = Where::current());
// x[start : start + length] along axis.
Tensor narrow(const Tensor& x, int axis, std::int64_t start, std::int64_t length, Where where = Where::current());
// x[…, index, …] without the axis.
Tensor select(const Tensor& x, int axis, std::int64_t index, Where where = Where::current());
// x broadcast to `shape` with strides of 0.
Tensor expand(const Tensor& x, const Shape& shape, Where where = Where::current());

// --- elementwise -----------------------------------------------------------------------------------------------------
// Two tensors broadcast as NumPy does and must have one dtype.

Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor sub(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor mul(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor div(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor maximum(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor minimum(const Tensor& a, const Tensor& b, Where where = Where::current());
// Comparisons give bool and have no gradient.
Tensor equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less(const Tensor& a, const Tensor& b, Where where = Where::current());

Tensor add(const Tensor& x, double value, Where where = Where::current());
Tensor mul(const Tensor& x, double value, Where where = Where::current());
// value - x, value / x.
Tensor rsub(const Tensor& x, double value, Where where = Where::current());
Tensor rdiv(const Tensor& x, double value, Where where = Where::current());
Tensor pow(const Tensor& x, double exponent, Where where = Where::current());

Tensor neg(const Tensor& x, Where where = Where::current());
Tensor abs(const Tensor& x, Where where = Where::current());
Tensor exp(const Tensor& x, Where where = Where::current());
Tensor log(const Tensor& x, Where where = Where::current());
Tensor sqrt(const Tensor& x, Where where = Where::current());
Tensor square(const Tensor& x, Where where = Where::current());
Tensor relu(const Tensor& x, Where where = Where::current());
Tensor tanh(const Tensor& x, Where where = Where::current());
Tensor sigmoid(const Tensor& x, Where where = Where::current());

// --- reduction -------------------------------------------------------------------------------------------------------
// Over `axes`; all of them when empty.

Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false, Where where = Where::current());
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false, Where where = Where::current());
// The gradient goes to every element that equals the maximum, shared equally.
Tensor max(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false, Where where = Where::current());
// i64, the first of equal values.
Tensor argmax(const Tensor& x, int axis = -1, Where where = Where::current());

// --- linear algebra --------------------------------------------------------------------------------------------------

// a: […, M, K], b: […, K, N] → […, M, N], leading axes broadcast. float.
Tensor matmul(const Tensor& a, const Tensor& b, Where where = Where::current());
// x: […, I], weight: [O, I], bias: [O] or undefined → […, O] = x weightᵀ + bias.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Where where = Where::current());

// --- images ----------------------------------------------------------------------------------------------------------

struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};  // height, width
  std::int64_t groups = 1;
};
// x: [N, C, H, W], weight: [O, C / groups, KH, KW], bias: [O] or undefined → [N, O, OH, OW],
// OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1. The result is channels-last in memory.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {},
              Where where = Where::current());

struct Pool2dOptions {
  std::array<std::int64_t, 2> kernel{2, 2}, stride{2, 2}, padding{0, 0};
  bool count_include_pad = true;  // average only
};
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {}, Where where = Where::current());
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {}, Where where = Where::current());

struct BatchNormOptions {
  bool training = true;   // normalise with the batch's statistics and update the running ones
  double momentum = 0.1;  // of the new value in the running average
  double epsilon = 1e-5;
};
// x: [N, C, H, W] or [N, C]; gamma, beta: [C] or undefined; running_mean, running_var: [C], or both undefined in
// training.
Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options = {}, Where where = Where::current());

// x / max(‖x‖₂, epsilon) along axis.
Tensor l2_normalize(const Tensor& x, int axis = -1, double epsilon = 1e-12, Where where = Where::current());

// --- losses ----------------------------------------------------------------------------------------------------------

enum class Reduction : std::uint8_t { none, mean, sum };
// logits: [N, C], labels: i64 or i32 [N] in [0, C). Throws: InvalidArgument for a label outside.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Reduction reduction = Reduction::mean,
                             Where where = Where::current());
// (a - b)², elementwise.
Tensor square_error(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor square_error(const Tensor& x, double target, Where where = Where::current());

// --- embedding -------------------------------------------------------------------------------------------------------

enum class GradientKind : std::uint8_t { dense, row_sparse };

// table: [V, D], ids: i64 or i32 of any shape → [ids…, D]. Throws: InvalidArgument for an id outside [0, V).
Tensor embedding(const Tensor& table, const Tensor& ids, GradientKind gradient = GradientKind::dense,
                 Where where = Where::current());
enum class BagMode : std::uint8_t { sum, mean };
// Bag b is ids[offsets[b] … offsets[b + 1]); ids: [n], offsets: [B], of one integer dtype → [B, D]. An empty bag gives
// 0.
Tensor embedding_bag(const Tensor& table, const Tensor& ids, const Tensor& offsets, BagMode mode = BagMode::sum,
                     GradientKind gradient = GradientKind::dense, Where where = Where::current());

// --- operators -------------------------------------------------------------------------------------------------------

// Lets an operator know its line: a Tensor converts to an Operand where the operator stands.
struct Operand {
  Operand(const Tensor& t, Where w = Where::current()) : tensor(t), where(w) {}  // NOLINT(google-explicit-constructor)
  const Tensor& tensor;
  Where where;
};
inline Tensor operator+(Operand a, const Tensor& b) { return add(a.tensor, b, a.where); }
inline Tensor operator-(Operand a, const Tensor& b) { return sub(a.tensor, b, a.where); }
inline Tensor operator*(Operand a, const Tensor& b) { return mul(a.tensor, b, a.where); }
inline Tensor operator/(Operand a, const Tensor& b) { return div(a.tensor, b, a.where); }
inline Tensor operator+(Operand a, double b) { return add(a.tensor, b, a.where); }
inline Tensor operator-(Operand a, double b) { return add(a.tensor, -b, a.where); }
inline Tensor operator*(Operand a, double b) { return mul(a.tensor, b, a.where); }
inline Tensor operator/(Operand a, double b) { return mul(a.tensor, 1 / b, a.where); }
inline Tensor operator+(double a, Operand b) { return add(b.tensor, a, b.where); }
inline Tensor operator-(double a, Operand b) { return rsub(b.tensor, a, b.where); }
inline Tensor operator*(double a, Operand b) { return mul(b.tensor, a, b.where); }
inline Tensor operator/(double a, Operand b) { return rdiv(b.tensor, a, b.where); }
inline Tensor operator-(Operand x) { return neg(x.tensor, x.where); }

}  // namespace ferry
