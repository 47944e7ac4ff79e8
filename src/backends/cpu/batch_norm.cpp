#include "src/backends/cpu/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "src/backends/cpu/channel_vectors.h"
#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/dnn.h"
#include "src/backends/cpu/float_views.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/parallel.h"
#include "src/kernels/functor.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements a task: two passes over them find them in the first caches
constexpr std::int64_t kMinRows = 32;   // so that combining tasks stays small beside their work

// How x's elements are cut into pieces of neighbouring rows, or of one plane each.
struct Pieces {
  BatchNormOrder order;
  std::int64_t channels, rows;  // rows: elements a channel
  std::int64_t planes;          // batch entries, in plane order
  std::int64_t piece;           // rows a piece

  std::int64_t count() const { return order == kPlane ? planes * channels : (rows + piece - 1) / piece; }
  std::int64_t first(std::int64_t i) const { return order == kPlane ? i * piece : i * piece * channels; }
  std::int64_t loop_rows(std::int64_t i) const { return order == kPlane ? 1 : std::min(piece, rows - i * piece); }
  std::int64_t loop_lanes() const { return order == kPlane ? piece : channels; }
  std::int64_t elements(std::int64_t i) const { return order == kPlane ? piece : loop_rows(i); }  // a channel
  std::int64_t channel(std::int64_t i) const { return order == kPlane ? i % channels : 0; }
  // Numbers of each statistic that a piece has.
  std::int64_t width() const { return order == kPlane ? 1 : channels; }
};

Pieces make_pieces(const TensorView& x) {
  const std::int64_t channels = x.shape[1];
  const std::int64_t rows = channels == 0 ? 0 : x.numel() / channels;
  if (x.shape.rank() == 4 && !is_channels_last(x)) {
    return {kPlane, channels, rows, x.shape[0], x.shape[2] * x.shape[3]};
  }
  return {kChannelsLast, channels, rows, x.shape[0], std::max(kMinRows, kGrain / std::max<std::int64_t>(1, channels))};
}

template <class Body>
void for_each_piece(const Pieces& pieces, const Body& body) {
  const std::int64_t work = pieces.order == kPlane ? pieces.piece : pieces.piece * pieces.channels;
  parallel_for(pieces.count(), std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, work)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) body(i);
               });
}

struct Statistics {
  Vector mean, m2;
};

// Chan's combination of the pieces' moments, in their order.
Statistics combine(const Pieces& pieces, const Vector& means, const Vector& m2s) {
  const auto channels = static_cast<std::size_t>(pieces.channels);
  Statistics total{Vector(channels), Vector(channels)};
  Vector counts(channels);
  const std::int64_t width = pieces.width();
  for (std::int64_t i = 0; i < pieces.count(); ++i) {
    const auto n = static_cast<double>(pieces.elements(i));
    for (std::int64_t k = 0; k < width; ++k) {
      const auto c = static_cast<std::size_t>(pieces.channel(i) + k);
      const auto at = static_cast<std::size_t>(i * width + k);
      const double sum = counts[c] + n;
      const double delta = means[at] - total.mean[c];
      total.mean[c] += delta * (n / sum);
      total.m2[c] += m2s[at] + delta * delta * (counts[c] * n / sum);
      counts[c] = sum;
    }
  }
  return total;
}

template <class T>
Statistics batch_statistics(const Pieces& pieces, const T* x) {
  const auto size = static_cast<std::size_t>(pieces.count() * pieces.width());
  Vector means(size), m2s(size);
  const auto moments = batch_norm_loops<T>().moments[pieces.order];
  for_each_piece(pieces, [&](std::int64_t i) {
    const std::int64_t at = i * pieces.width();
    moments(pieces.loop_rows(i), pieces.loop_lanes(), x + pieces.first(i), means.data() + at, m2s.data() + at);
  });
  return combine(pieces, means, m2s);
}

template <class T>
void normalize(const Pieces& pieces, const T* x, const Vector& means, const Vector& scales, const Vector& shifts,
               bool relu, T* y) {
  using C = kernels::Compute<T>;
  const auto mean = narrowed<C>(means), scale = narrowed<C>(scales), shift = narrowed<C>(shifts);
  const BatchNormLoops<T>& loops = batch_norm_loops<T>();
  const auto apply = (relu ? loops.apply_relu : loops.apply)[pieces.order];
  for_each_piece(pieces, [&](std::int64_t i) {
    const std::int64_t c = pieces.channel(i);
    apply(pieces.loop_rows(i), pieces.loop_lanes(), x + pieces.first(i), mean.data() + c, scale.data() + c,
          shift.data() + c, y + pieces.first(i));
  });
}

struct GradientSums {
  Vector dy, product;  // of dy, and of dy (x - mean)
};

template <class T>
GradientSums gradient_sums(const Pieces& pieces, const T* dy, const T* x,
                           const std::vector<kernels::Compute<T>>& mean) {
  const std::int64_t width = pieces.width();
  const auto size = static_cast<std::size_t>(pieces.count() * width);
  const auto channels = static_cast<std::size_t>(pieces.channels);
  Vector parts(size), products(size);
  const auto sums = batch_norm_loops<T>().sums[pieces.order];
  for_each_piece(pieces, [&](std::int64_t i) {
    sums(pieces.loop_rows(i), pieces.loop_lanes(), dy + pieces.first(i), x + pieces.first(i),
         mean.data() + pieces.channel(i), parts.data() + i * width, products.data() + i * width);
  });
  GradientSums total{Vector(channels), Vector(channels)};
  for (std::int64_t i = 0; i < pieces.count(); ++i) {
    for (std::int64_t k = 0; k < width; ++k) {
      const auto c = static_cast<std::size_t>(pieces.channel(i) + k);
      total.dy[c] += parts[static_cast<std::size_t>(i * width + k)];
      total.product[c] += products[static_cast<std::size_t>(i * width + k)];
    }
  }
  return total;
}

// Statistics as a context's inputs give them, and what follows from them.
struct Affine {
  Vector mean, inverse_std, gamma;
};

template <class T>
void backward(const KernelContext& context, const TensorView& dy, const TensorView& x, const Affine& affine) {
  const Pieces pieces = make_pieces(x);
  using C = kernels::Compute<T>;
  const auto mean = narrowed<C>(affine.mean);
  GradientSums sums = gradient_sums<T>(pieces, dy.as<const T>(), x.as<const T>(), mean);
  const auto channels = static_cast<std::size_t>(pieces.channels);
  std::vector<C> scale(channels), slope(channels), shift(channels);
  const double n = static_cast<double>(std::max<std::int64_t>(1, pieces.rows));
  for (std::size_t c = 0; c < channels; ++c) {
    const double factor = affine.gamma[c] * affine.inverse_std[c];
    sums.product[c] *= affine.inverse_std[c];
    scale[c] = static_cast<C>(factor);
    slope[c] = static_cast<C>(-factor * affine.inverse_std[c] * sums.product[c] / n);
    shift[c] = static_cast<C>(-factor * sums.dy[c] / n);
  }
  const auto gradient = batch_norm_loops<T>().gradient[pieces.order];
  T* const dx = context.out(0).template as<T>();
  for_each_piece(pieces, [&](std::int64_t i) {
    const std::int64_t c = pieces.channel(i);
    gradient(pieces.loop_rows(i), pieces.loop_lanes(), dy.as<const T>() + pieces.first(i),
             x.as<const T>() + pieces.first(i), mean.data() + c, scale.data() + c, slope.data() + c, shift.data() + c,
             dx + pieces.first(i));
  });
  write_vector(context, sums.product, optional_view(context.outputs, 1));
  write_vector(context, sums.dy, optional_view(context.outputs, 2));
}

// y = (x - mean) gamma inverse_std + beta, or relu of it
void apply_statistics(const KernelContext& context, const TensorView& x, const Affine& affine, const Vector& beta,
                      bool relu = false) {
  Vector scale(affine.gamma);
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] *= affine.inverse_std[c];
  visit_types<float, double, bfloat16>(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    normalize<T>(make_pieces(x), x.as<const T>(), affine.mean, scale, beta, relu, context.out().as<T>());
  });
}

// bf16 becomes f32 by a shift; of f16 that takes long enough to do it once instead of in each pass.
bool done_in_f32_for_f16(const KernelContext& context, Kernel self) {
  return context.out().dtype == DType::f16 && done_in_f32(context, self);
}

double epsilon_of(const KernelContext& context) { return context.attributes.as<ops::BatchNormAttributes>().epsilon; }

}  // namespace

void batch_norm(const KernelContext& context) {
  if (done_in_f32_for_f16(context, batch_norm)) return;
  const TensorView x = in_order_of(context.op, context.in(0), context.out(0), dnn::Buffer::operand);
  const std::int64_t channels = x.shape[1];
  const Pieces pieces = make_pieces(x);
  Affine affine;
  visit_types<float, double, bfloat16>(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Statistics statistics = batch_statistics<T>(pieces, x.as<const T>());
    affine.mean = std::move(statistics.mean);
    affine.inverse_std = std::move(statistics.m2);
  });
  const double n = static_cast<double>(std::max<std::int64_t>(1, pieces.rows));
  for (double& value : affine.inverse_std) value = 1 / std::sqrt(value / n + epsilon_of(context));
  write_vector(context, affine.mean, context.out(1));
  write_vector(context, affine.inverse_std, context.out(2));
  // As written, so that they give y once more.
  affine.mean = read_vector(context, context.out(1), channels, 0);
  affine.inverse_std = read_vector(context, context.out(2), channels, 1);
  affine.gamma = read_vector(context, optional_view(context.inputs, 1), channels, 1);
  apply_statistics(context, x, affine, read_vector(context, optional_view(context.inputs, 2), channels, 0));
}

void batch_norm_apply(const KernelContext& context) {
  if (done_in_f32_for_f16(context, batch_norm_apply)) return;
  const TensorView x = in_order_of(context.op, context.in(0), context.out(0), dnn::Buffer::operand);
  const std::int64_t channels = x.shape[1];
  const Affine affine{.mean = read_vector(context, context.in(3), channels, 0),
                      .inverse_std = read_vector(context, context.in(4), channels, 1),
                      .gamma = read_vector(context, context.in(1), channels, 1)};
  apply_statistics(context, x, affine, read_vector(context, context.in(2), channels, 0),
                   context.attributes.as<ops::BatchNormApplyAttributes>().relu);
}

void batch_norm_inference(const KernelContext& context) {
  if (done_in_f32_for_f16(context, batch_norm_inference)) return;
  const TensorView x = in_order_of(context.op, context.in(0), context.out(0), dnn::Buffer::operand);
  const std::int64_t channels = x.shape[1];
  Affine affine{.mean = read_vector(context, context.in(3), channels, 0),
                .inverse_std = read_vector(context, context.in(4), channels, 1),
                .gamma = read_vector(context, context.in(1), channels, 1)};
  for (double& value : affine.inverse_std) value = 1 / std::sqrt(value + epsilon_of(context));
  apply_statistics(context, x, affine, read_vector(context, context.in(2), channels, 0));
}

void batch_norm_backward(const KernelContext& context) {
  if (done_in_f32_for_f16(context, batch_norm_backward)) return;
  const TensorView dy = in_order_of(context.op, context.in(0), context.out(0), dnn::Buffer::operand);
  const TensorView x = in_order_of(context.op, context.in(1), context.out(0), dnn::Buffer::primitive);
  const std::int64_t channels = x.shape[1];
  const Affine affine{.mean = read_vector(context, context.in(3), channels, 0),
                      .inverse_std = read_vector(context, context.in(4), channels, 1),
                      .gamma = read_vector(context, context.in(2), channels, 1)};
  visit_types<float, double, bfloat16>(
      context, x.dtype, [&](auto tag) { backward<typename decltype(tag)::type>(context, dy, x, affine); });
}

void running_average_(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::RunningAverageAttributes>();
  const std::int64_t channels = context.in(0).shape[0];
  Vector mean = read_vector(context, context.in(0), channels, 0);
  Vector var = read_vector(context, context.in(1), channels, 0);
  const Vector batch_mean = read_vector(context, context.in(2), channels, 0);
  const Vector inverse_std = read_vector(context, context.in(3), channels, 1);
  const double n = static_cast<double>(a.count);
  // One element has no unbiased variance; its biased one, zero, is what there is.
  const double unbiased = a.count > 1 ? n / (n - 1) : 1;
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double batch_var = (1 / (inverse_std[c] * inverse_std[c]) - a.epsilon) * unbiased;
    mean[c] += a.momentum * (batch_mean[c] - mean[c]);
    var[c] += a.momentum * (batch_var - var[c]);
  }
  write_vector(context, mean, context.out(0));
  write_vector(context, var, context.out(1));
}

}  // namespace ferry::cpu_backend
