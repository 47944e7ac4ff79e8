// Parameters of ops that are not tensors, and with each the contract between an op's schema and the kernels of all
// backends: inputs → outputs, in the order kernels see them. `?` marks an optional argument (view.given is false when
// left out). Unless a line says otherwise
//   - float arguments are all of one dtype (f32, f64, f16, bf16); 16-bit floats accumulate in f32;
//   - views may have any strides, 0 included (broadcast inputs arrive expanded to the output's shape with stride 0);
//   - "dense" arguments are contiguous; "image" arguments are dense [N, C, H, W] in either contiguous or
//     channels-last order, each on its own;
//   - outputs are dense in the order the schema chose, and never alias inputs except where an op mutates one.
#pragma once

#include <cstdint>

#include <ferry/dtype.h>
#include <ferry/shape.h>

namespace ferry::ops {

// --- creation: () → y ------------------------------------------------------------------------------------------------

// What a creation op makes.
struct CreationShape {
  Shape shape;
  DType dtype = DType::f32;
};

// fill: y = value. fill_: the same on a mutated input (any strides).
struct FillAttributes {
  double value = 0;
  CreationShape created{};  // fill only
};

// uniform: y[i] in [low, high). normal: mean low, standard deviation high. Counter based (Philox4x32-10): element i of
// a call depends only on (seed, offset + i), never on threads or device.
struct RandomAttributes {
  double low = 0, high = 1;
  std::uint64_t seed = 0, offset = 0;
  CreationShape created{};
};

// arange: y[i] = start + i * step.
struct ArangeAttributes {
  double start = 0, step = 1;
  CreationShape created{};
};

// --- movement --------------------------------------------------------------------------------------------------------

// copy: (x any dtype) → y same shape, any dtype, any strides on both sides; converts. f→i truncates, →bool is x != 0.
// copy_: (x mutated, other) → x = other, the same conversions; no attributes.
struct CopyAttributes {
  DType dtype = DType::f32;
  bool row_major = false;  // else y keeps the order of x's axes
};

// shape: (x) → y i64 [rank], written in host memory. Launched on the CPU; x's data is not read.

// slice: (x, starts? i64 host, ends? i64 host) → y, y[i] = x[start + i * step] along each axis; already clamped.
// slice_backward: (dy) → dx, zero but dx[start + i * step] = dy[i]. dx has the shape of the forward x.
struct SliceAttributes {
  Dims starts, steps;  // one per axis of x
  Shape result{};      // for slice_backward's schema: dx's shape
};

// crop: (x, shape? i64 host) → y = x[offset : offset + y.shape]. Its backward is slice_backward.
// Uses SliceAttributes with steps of 1.

// What callers of slice and crop state; infer turns them into the above, kernels never see them.
struct SliceBounds {
  Dims axes, starts, ends, steps;
};
struct CropBounds {
  Shape shape;
  Dims offsets;  // rank 0: from the start
};

// concat: (x0, x1, …) → y along axis.
struct AxisAttributes {
  int axis = 0;
};

// Views have no kernel; their parameters are kept for their gradients.
struct PermuteAttributes {
  Dims axes;
};

// --- elementwise -----------------------------------------------------------------------------------------------------

// add, sub, mul, div, maximum, minimum: (a, b) → y, all dtypes but bool; i/i division truncates.
// square_error: (a, b) → (a - b)². square_error_scalar: (x) → (x - v)², ScalarAttributes.
// square_error_backward: (dy, a, b) → 2 dy (a - b). square_error_scalar_backward: (dy, x) → 2 dy (x - v).
// equal, greater, less: (a, b any numeric) → y bool.
// add_, mul_ …: the same kernels with y aliasing a (identical view).

// add_scalar: x + v; mul_scalar: x * v; rsub_scalar: v - x; rdiv_scalar: v / x; pow_scalar: x^v.
struct ScalarAttributes {
  double value = 0;
};

// neg, abs, exp, log, sqrt, square, relu, tanh, sigmoid: (x) → y.
// relu_backward, tanh_backward, sigmoid_backward: (dy, y) → dx; y is the forward output.
// relu_backward_, tanh_backward_, sigmoid_backward_: the same kernels with dx aliasing dy (identical view).
// abs_backward: (dy, x) → dy * sign(x).

// --- reduction -------------------------------------------------------------------------------------------------------

// sum, mean, max: (x) → y. `reduced[i]` is 1 where axis i of x is reduced. y arrives with x's rank and extent 1 there
// (a view drops those axes afterwards). Deterministic: the order of additions depends on shape and strides only.
// sum keeps integer dtypes. Reducing no elements gives 0 (sum), NaN (mean); max of none is a shape error in the schema.
struct ReduceAttributes {
  Dims reduced;
};

// argmax: (x) → y i64, x's shape without `axis`; the first of equal values. AxisAttributes; y arrives with extent 1 at
// axis.

// --- linear algebra --------------------------------------------------------------------------------------------------

// matmul: (a [B…, M, K], b [B…, K, N]) → y [B…, M, N] dense. Equal or broadcast batch axes (arrive expanded, stride 0).
// a and b come with any strides; transposed views are common and must not be slow.
// linear: (x [R, I] dense, w [O, I] dense, bias? [O]) → y [R, O] = x wᵀ + bias.

// --- convolution and pooling -----------------------------------------------------------------------------------------

// conv2d: (x image [N, C, H, W], w dense [O, C/g, KH, KW] contiguous or channels-last, bias? [O]) → y image.
// conv2d_backward_input: (dy image, w) → dx image.
// conv2d_backward_weight: (dy image, x image) → (dw [O, C/g, KH, KW], dbias? [O]).
struct Conv2dAttributes {
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  std::int64_t groups = 1;
  // For the backward ops' schemas; kernels see the same in their outputs.
  Shape result{};           // x's shape (backward_input), w's (backward_weight)
  bool wants_bias = false;  // backward_weight
  DType bias_dtype = DType::f32;
};

// max_pool2d: (x image) → (y image, index u8 or i32 in y's memory order). index = r * KW + c of the first largest
// element inside the window (padding never wins; NaN wins).
// max_pool2d_backward: (dy image, index) → dx image.
// avg_pool2d: (x image) → y image. avg_pool2d_backward: (dy image) → dx image.
struct Pool2dAttributes {
  std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0};
  bool count_include_pad = true;  // avg only: divide by KH*KW, else by the elements inside x
  Shape result{};                 // for the backward ops' schemas: x's shape
};

// --- normalisation ---------------------------------------------------------------------------------------------------

// batch_norm: (x image or [N, C], gamma? [C], beta? [C]) → (y like x, mean [C] , inverse_std [C]); training form:
// biased batch
//   statistics; inverse_std = 1 / sqrt(var + epsilon). mean and inverse_std are f32 for 16-bit x, else x's dtype; gamma
//   and beta share x's dtype or are f32.
// batch_norm_backward: (dy, x, gamma?, mean, inverse_std) → (dx, dgamma? , dbeta?).
// batch_norm_inference: (x, gamma?, beta?, running_mean [C], running_var [C]) → y.
struct BatchNormAttributes {
  double epsilon = 1e-5;
  // For batch_norm_backward's schema; its kernel sees the same in its outputs.
  bool wants_gamma = false, wants_beta = false;
  DType affine_dtype = DType::f32;
};

// batch_norm_apply: (x, gamma?, beta?, mean [C], inverse_std [C]) → y like x; with the statistics that batch_norm gave
//   for x, y has the bits of its y: batch_norm reads x twice, this reads it once. relu: of that, bit for bit, in the
//   same pass.
struct BatchNormApplyAttributes {
  Strides strides{};  // y's
  bool relu = false;
};

// running_average_: (running mean [C], running var [C], mean [C], inverse_std [C]) mutates the first two:
//   mean ← (1 - momentum) mean + momentum batch mean; var likewise with the unbiased batch variance
//   (1 / inverse_std² - epsilon) * count / (count - 1).
struct RunningAverageAttributes {
  double momentum = 0.1, epsilon = 1e-5;
  std::int64_t count = 1;  // elements a channel, N * H * W
};

// l2_normalize: (x) → (y, norm); along axis, y = x / max(norm, epsilon), norm = ‖x‖ with extent 1 at axis.
// l2_normalize_backward: (dy, y, norm) → dx.
struct L2NormalizeAttributes {
  int axis = -1;  // already non-negative when a kernel sees it
  double epsilon = 1e-12;
};

// --- embedding -------------------------------------------------------------------------------------------------------

// embedding: (table [V, D] dense, ids i64 or i32, dense, any shape) → y [ids…, D]. An id outside [0, V) is
// InvalidArgument. embedding_dense_backward: (dy [ids…, D] dense, ids) → dtable [V, D], zero elsewhere; duplicates are
// added in id order. embedding_bag: (table [V, D] dense, ids [n] dense, offsets [B] dense, both i64 or both i32) → y
// [B, D]. Bag b is
//   ids[offsets[b] .. offsets[b + 1] or n); an empty bag gives 0. offsets[0] = 0, non-decreasing, ≤ n, else
//   InvalidArgument.
// embedding_bag_backward: (dy [B, D] dense, offsets) → values [n, D], the gradient row of each id.
struct EmbeddingAttributes {
  std::int64_t rows = 0;    // V; for embedding_bag_backward n
  bool mean = false;        // embedding_bag: mean of the bag instead of its sum
  bool row_sparse = false;  // the table's gradient is row-sparse; kernels need not look
};

// coalesce: (rows i64 [n] or i32, values [n, D] dense) → (rows' i64 [n], values' [n, D]): distinct non-negative rows
//   ascending, their values added in input order; unused places at the end have row -1 and values 0.
// scatter_add_rows_: (dense [V, D] mutated, rows, values): dense[rows[i]] += values[i], skipping row -1.

}  // namespace ferry::ops
