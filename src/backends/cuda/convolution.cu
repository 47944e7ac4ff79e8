// Convolution of images: by cuDNN where it can, else as matrix products: patches of x as rows (im2col), some images at
// a time.
//
//   y  [rows, O]     = patches [rows, K] w [O, K]ᵀ          rows: n, oh, ow;  K: a group's c, kh, kw in w's own order
//   dx               = patches ← (dy [rows, O] w [O, K])    each element of dx gathers its places in the patches
//   dw [O, K]        = dyᵀ patches                          summed over the rows in f32 or f64
#include <algorithm>

#include "src/backends/cuda/cudnn.h"
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/gemm.h"
#include "src/backends/cuda/grouped_reduce.h"
#include "src/backends/cuda/image.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/views.h"
#include "src/ops/attributes.h"

namespace ferry::cuda_backend {
namespace {

// Bytes of patches that are in memory at once; fixed, so that results do not depend on how much is free.
constexpr std::int64_t kPatchBytes = std::int64_t{128} << 20;

// A convolution that maps x to y; the gradients' contexts are seen as one of these, too.
struct Problem {
  Image x, y;
  std::int64_t groups, kernel_h, kernel_w;
  std::int64_t stride[2], padding[2], dilation[2];
  bool channels_last;  // order of w's elements of one output channel

  FERRY_FUNCTOR std::int64_t group_channels() const { return x.channels / groups; }
  FERRY_FUNCTOR std::int64_t depth() const { return group_channels() * kernel_h * kernel_w; }  // K
  FERRY_FUNCTOR std::int64_t rows() const { return y.height * y.width; }                       // of one image
  FERRY_FUNCTOR std::int64_t outputs() const { return y.channels / groups; }                   // of one group

  // Patches are x itself.
  bool is_pointwise() const {
    return kernel_h == 1 && kernel_w == 1 && stride[0] == 1 && stride[1] == 1 && padding[0] == 0 && padding[1] == 0 &&
           (x.channels_last() || x.channels == 1 || x.plane() == 1);
  }
};

// patches[n, oh, ow, group, k] of images [first, first + count).
template <class T>
struct Patches {
  Problem p;
  std::int64_t first_image;
  const T* x;
  T* patches;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const std::int64_t depth = p.depth();
    std::int64_t k = i % depth, rest = i / depth;
    const std::int64_t group = rest % p.groups;
    rest /= p.groups;
    const std::int64_t ow = rest % p.y.width, oh = rest / p.y.width % p.y.height, n = rest / p.rows();
    std::int64_t c, kh, kw;
    if (p.channels_last) {
      c = k % p.group_channels();
      k /= p.group_channels();
      kw = k % p.kernel_w;
      kh = k / p.kernel_w;
    } else {
      kw = k % p.kernel_w;
      k /= p.kernel_w;
      kh = k % p.kernel_h;
      c = k / p.kernel_h;
    }
    const std::int64_t h = oh * p.stride[0] - p.padding[0] + kh * p.dilation[0];
    const std::int64_t w = ow * p.stride[1] - p.padding[1] + kw * p.dilation[1];
    const bool inside = h >= 0 && h < p.x.height && w >= 0 && w < p.x.width;
    patches[i] = inside ? x[p.x.at(first_image + n, group * p.group_channels() + c, h, w)] : T{};
  }
};

// The transposed map: each element of dx adds its places in the patches, in their order.
template <class T>
struct FromPatches {
  Problem p;
  std::int64_t first_image;
  const T* patches;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    Image images = p.x;
    const Place place = place_in(images, i);
    const std::int64_t group = place.c / p.group_channels(), c = place.c % p.group_channels();
    Compute<T> sum = 0;
    for (std::int64_t kh = 0; kh < p.kernel_h; ++kh) {
      const std::int64_t up = place.h + p.padding[0] - kh * p.dilation[0], oh = up / p.stride[0];
      if (up < 0 || up % p.stride[0] != 0 || oh >= p.y.height) continue;
      for (std::int64_t kw = 0; kw < p.kernel_w; ++kw) {
        const std::int64_t left = place.w + p.padding[1] - kw * p.dilation[1], ow = left / p.stride[1];
        if (left < 0 || left % p.stride[1] != 0 || ow >= p.y.width) continue;
        const std::int64_t row = (place.n * p.y.height + oh) * p.y.width + ow;
        const std::int64_t k =
            p.channels_last ? (kh * p.kernel_w + kw) * p.group_channels() + c : (c * p.kernel_h + kh) * p.kernel_w + kw;
        sum += load(patches[(row * p.groups + group) * p.depth() + k]);
      }
    }
    dx[p.x.at(first_image + place.n, place.c, place.h, place.w)] = store<T>(sum);
  }
};

Problem problem_of(const ops::Conv2dAttributes& a, const TensorView& x, const TensorView& w, const TensorView& y) {
  Problem p{};
  p.x = image_of(x);
  p.y = image_of(y);
  p.groups = a.groups;
  p.kernel_h = w.shape[2];
  p.kernel_w = w.shape[3];
  for (int i = 0; i < 2; ++i) {
    p.stride[i] = a.stride[i];
    p.padding[i] = a.padding[i];
    p.dilation[i] = a.dilation[i];
  }
  p.channels_last = image_of(w).channels_last();
  return p;
}

std::int64_t images_together(const Problem& p, DType dtype) {
  const std::int64_t bytes = std::max<std::int64_t>(1, p.rows() * p.groups * p.depth() * size_of(dtype));
  return std::clamp<std::int64_t>(kPatchBytes / bytes, 1, std::max<std::int64_t>(1, p.x.images));
}

// An image as a matrix [groups, rows, channels of a group]. Requires: channels are neighbours.
TensorView rows_of(const TensorView& base, const Image& image, std::int64_t groups, std::int64_t first,
                   std::int64_t count) {
  const std::int64_t channels = image.channels / groups;
  return matrix_view(base, base.as<std::byte>() + first * image.n_step * size_of(base.dtype),
                     {groups, count * image.plane(), channels}, {channels, image.channels, 1});
}

// Whether rows_of describes the image.
bool has_rows(const Image& image) { return image.channels_last() || image.channels == 1 || image.plane() == 1; }

// The view, or a copy whose channels are neighbours.
TensorView with_rows(const KernelContext& context, const TensorView& view) {
  if (has_rows(image_of(view))) return view;
  const TensorView copy = scratch_view(view.dtype, view.shape, channels_last_strides(view.shape));
  copy_view(context, copy, view);
  return copy;
}

// w, or a copy whose channels are neighbours, as cuDNN reads it.
TensorView with_channels_last(const KernelContext& context, const TensorView& w) {
  const Image image = image_of(w);
  if (has_rows(image)) return w;
  const TensorView copy = scratch_view(w.dtype, w.shape, channels_last_strides(w.shape));
  copy_view(context, copy, w);
  return copy;
}

// Patches as a matrix [groups, rows, K].
TensorView patch_matrix(const TensorView& base, const Problem& p, void* data, std::int64_t images) {
  return matrix_view(base, data, {p.groups, images * p.rows(), p.depth()}, {p.depth(), p.groups * p.depth(), 1});
}

// w as [groups, O/g, K].
TensorView weight_matrix(const TensorView& w, const Problem& p) {
  return matrix_view(w, w.data, {p.groups, p.outputs(), p.depth()}, {p.outputs() * p.depth(), p.depth(), 1});
}

template <class T>
void make_patches(const Problem& p, const TensorView& x, std::int64_t first, std::int64_t count, void* to) {
  for_each(count * p.rows() * p.groups * p.depth(), Patches<T>{p, first, x.as<const T>(), static_cast<T*>(to)});
}

// Calls body(first image, count, patches) for parts of x.
template <class T, class Body>
void for_patches(const Problem& p, const TensorView& x, const Body& body) {
  const std::int64_t images = p.x.images, together = images_together(p, x.dtype);
  const bool direct = p.is_pointwise();
  void* const memory = direct ? nullptr : LaunchScope::current().scratch<T>(together * p.rows() * p.groups * p.depth());
  for (std::int64_t first = 0; first < images; first += together) {
    const std::int64_t count = std::min(together, images - first);
    if (direct) {
      body(first, count, patch_matrix(x, p, x.as<std::byte>() + first * p.x.n_step * size_of(x.dtype), count));
    } else {
      make_patches<T>(p, x, first, count, memory);
      body(first, count, patch_matrix(x, p, memory, count));
    }
  }
}

void add_bias_first(const KernelContext& context, const TensorView& y, std::size_t bias) {
  TensorView repeated = context.in(bias);
  repeated.shape = y.shape;
  repeated.strides = {0, context.in(bias).strides[0], 0, 0};
  copy_view(context, y, repeated);
}

void conv2d(const KernelContext& context) {
  const TensorView &x = context.in(0), &w = context.in(1), &y = context.out();
  if (y.numel() == 0) return;
  const bool in_place = has_rows(image_of(y));
  const TensorView rows = in_place ? y : scratch_view(y.dtype, y.shape, channels_last_strides(y.shape));
  const auto& attributes = context.attributes.as<ops::Conv2dAttributes>();
  const Problem p = problem_of(attributes, x, w, rows);
  if (context.has_input(2)) add_bias_first(context, rows, 2);
  const bool by_cudnn = x.numel() > 0 && has_cudnn() &&
                        cudnn_convolution(attributes, with_rows(context, x), with_channels_last(context, w), rows,
                                          context.has_input(2) ? 1 : 0);
  if (by_cudnn) {
    if (!in_place) copy_view(context, y, rows);
    return;
  }
  visit_floats(context, x.dtype, [&](auto tag) {
    for_patches<typename decltype(tag)::type>(
        p, x, [&](std::int64_t first, std::int64_t count, const TensorView& patches) {
          gemm(context, patches, transposed(weight_matrix(w, p)), rows_of(rows, p.y, p.groups, first, count), 1,
               context.has_input(2) ? 1 : 0);
        });
  });
  if (!in_place) copy_view(context, y, rows);
}

void input_gradient_of_patches(const KernelContext& context, const Problem& p, const TensorView& dy) {
  const TensorView &w = context.in(1), &dx = context.out();
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t images = p.x.images, together = images_together(p, dx.dtype);
    const bool direct = p.is_pointwise();
    T* const memory = direct ? nullptr : LaunchScope::current().scratch<T>(together * p.rows() * p.groups * p.depth());
    for (std::int64_t first = 0; first < images; first += together) {
      const std::int64_t count = std::min(together, images - first);
      void* const to = direct ? static_cast<void*>(dx.as<T>() + first * p.x.n_step) : memory;
      gemm(context, rows_of(dy, p.y, p.groups, first, count), weight_matrix(w, p), patch_matrix(dx, p, to, count));
      if (!direct) for_each<1>(count * p.x.channels * p.x.plane(), FromPatches<T>{p, first, memory, dx.as<T>()});
    }
  });
}

// dx of a convolution from dy; `bias`: an input that is added to it, for the transposed convolution. 0: none.
void input_gradient(const KernelContext& context, std::size_t bias) {
  const TensorView &w = context.in(1), &dx = context.out();
  if (dx.numel() == 0) return;
  const TensorView dy = with_rows(context, context.in(0));
  const auto& attributes = context.attributes.as<ops::Conv2dAttributes>();
  const Problem p = problem_of(attributes, dx, w, dy);
  const bool by_cudnn = dy.numel() > 0 && has_rows(p.x) && has_cudnn() &&
                        cudnn_input_gradient(attributes, dy, with_channels_last(context, w), dx);
  if (!by_cudnn) input_gradient_of_patches(context, p, dy);
  if (bias == 0 || !context.has_input(bias)) return;
  TensorView repeated = context.in(bias);
  repeated.shape = dx.shape;
  repeated.strides = {0, context.in(bias).strides[0], 0, 0};
  add_view(context, dx, repeated);
}

void conv2d_backward_input(const KernelContext& context) { input_gradient(context, 0); }
void conv_transpose2d(const KernelContext& context) { input_gradient(context, 2); }

// Σ dy over images and positions.
template <class C>
struct BiasGradient {
  using Acc = double;
  Image slopes;
  Values<C> dy;
  Target dbias;

  FERRY_FUNCTOR Acc identity() const { return 0; }
  FERRY_FUNCTOR std::int64_t start(std::int64_t channel) const { return channel; }
  FERRY_FUNCTOR void add(Acc& acc, std::int64_t channel, std::int64_t k) const {
    acc += static_cast<double>(dy[slopes.at(k / slopes.plane(), channel, k % slopes.plane())]);
  }
  FERRY_FUNCTOR Acc merge(Acc a, Acc b) const { return a + b; }
  FERRY_FUNCTOR void finish(std::int64_t channel, Acc acc) const { dbias.set(channel, acc); }
};

bool weight_gradient_by_cudnn(const KernelContext& context, const TensorView& dy) {
  const TensorView &x = context.in(1), &dw = context.out(0);
  const bool in_place = has_rows(image_of(dw));
  const TensorView gradient = in_place ? dw : scratch_view(dw.dtype, dw.shape, channels_last_strides(dw.shape));
  const auto& attributes = context.attributes.as<ops::Conv2dAttributes>();
  if (!cudnn_weight_gradient(attributes, dy, with_rows(context, x), gradient)) return false;
  if (!in_place) copy_view(context, dw, gradient);
  return true;
}

void conv2d_backward_weight(const KernelContext& context) {
  const TensorView &x = context.in(1), &dw = context.out(0);
  if (context.has_output(1)) {
    const Image slopes = image_of(context.in(0));
    grouped_reduce(slopes.channels, slopes.images * slopes.plane(),
                   has_rows(slopes) ? Neighbours::groups : Neighbours::elements,
                   BiasGradient<double>{slopes, values_of(context, 0, 0.0), target_of(context, 1)});
  }
  if (!context.has_output(0) || dw.numel() == 0) return;
  const TensorView dy = with_rows(context, context.in(0));
  if (dy.numel() == 0) return fill_view(context, dw, 0);
  if (x.numel() > 0 && has_cudnn() && weight_gradient_by_cudnn(context, dy)) return;
  const Problem p = problem_of(context.attributes.as<ops::Conv2dAttributes>(), x, dw, dy);
  // 16-bit gradients are rounded once, not after each part.
  const bool narrow = size_of(dw.dtype) == 2;
  TensorView sums = dw;
  if (narrow) sums = scratch_view(DType::f32, dw.shape, dw.strides);
  visit_floats(context, x.dtype, [&](auto tag) {
    for_patches<typename decltype(tag)::type>(p, x,
                                              [&](std::int64_t first, std::int64_t count, const TensorView& patches) {
                                                gemm(context, transposed(rows_of(dy, p.y, p.groups, first, count)),
                                                     patches, weight_matrix(sums, p), 1, first == 0 ? 0 : 1);
                                              });
  });
  if (narrow) copy_view(context, dw, sums);
}

constexpr KernelEntry kEntries[] = {
    {"conv2d", conv2d},
    {"conv2d_backward_input", conv2d_backward_input},
    {"conv2d_backward_weight", conv2d_backward_weight},
    {"conv_transpose2d", conv_transpose2d},
};

}  // namespace

std::span<const KernelEntry> convolution_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
