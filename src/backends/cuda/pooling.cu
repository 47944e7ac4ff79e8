// Pooling of images. Gradients gather what each input position contributed to, so that they add in a fixed order.
#include <limits>

#include "src/backends/cuda/cudnn.h"
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/image.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/ops/attributes.h"
#include "src/ops/convolution.h"

namespace ferry::cuda_backend {
namespace {

// Half-open.
struct Range {
  std::int64_t begin, end;
};

// One axis of a pooling.
struct PoolAxis {
  std::int64_t kernel, stride, padding, input, output;

  // Positions inside the window of output `o` that lie in x.
  FERRY_FUNCTOR Range window(std::int64_t o) const {
    const std::int64_t first = o * stride - padding;
    const std::int64_t begin = first < 0 ? -first : 0, end = input - first < kernel ? input - first : kernel;
    return {begin, end < begin ? begin : end};
  }
  // Outputs whose windows have input `i`.
  FERRY_FUNCTOR Range outputs(std::int64_t i) const {
    const std::int64_t place = i + padding, from = place - kernel + 1;
    const std::int64_t begin = from <= 0 ? 0 : (from + stride - 1) / stride, end = place / stride + 1;
    return {begin, end < output ? end : output};
  }
};

PoolAxis axis_of(const ops::Pool2dAttributes& a, int i, std::int64_t input, std::int64_t output) {
  return {a.kernel[i], a.stride[i], a.padding[i], input, output};
}

// Calls body(offset, number) for the elements of the window of output `place` that lie in x, in the window's order:
// where they are, and their number in the window.
template <class Body>
FERRY_FUNCTOR void for_window(const PoolAxis& h, const PoolAxis& w, const Image& x, const Place& place, Body&& body) {
  const Range rows = h.window(place.h), columns = w.window(place.w);
  const std::int64_t top = place.h * h.stride - h.padding, left = place.w * w.stride - w.padding;
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    for (std::int64_t q = columns.begin; q < columns.end; ++q) {
      body(x.at(place.n, place.c, top + r, left + q), r * w.kernel + q);
    }
  }
}

// Calls body(oh, ow) for the outputs whose windows have input `place`.
template <class Body>
FERRY_FUNCTOR void for_outputs(const PoolAxis& h, const PoolAxis& w, const Place& place, Body&& body) {
  const Range rows = h.outputs(place.h), columns = w.outputs(place.w);
  for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
    for (std::int64_t ow = columns.begin; ow < columns.end; ++ow) body(oh, ow);
  }
}

// u8 or i32.
struct WindowIndex {
  void* data;
  bool narrow;

  explicit WindowIndex(const TensorView& view) : data(view.data), narrow(view.dtype == DType::u8) {}
  FERRY_FUNCTOR std::int64_t get(std::int64_t i) const {
    return narrow ? static_cast<const std::uint8_t*>(data)[i] : static_cast<const std::int32_t*>(data)[i];
  }
  FERRY_FUNCTOR void set(std::int64_t i, std::int64_t value) const {
    if (narrow) {
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value);
    } else {
      static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
    }
  }
};

template <class T>
struct MaxPool {
  using C = Compute<T>;
  PoolAxis h, w;
  Image from, to;
  const T* x;
  T* y;
  WindowIndex index;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Place place = place_in(to, i);
    C best = -std::numeric_limits<C>::infinity();
    std::int64_t where = h.window(place.h).begin * w.kernel + w.window(place.w).begin;
    for_window(h, w, from, place, [&](std::int64_t at, std::int64_t number) {
      const C value = load(x[at]);
      // The first NaN wins over all numbers: it is not less than any, and nothing is greater.
      if (!(value <= best) && best == best) {
        best = value;
        where = number;
      }
    });
    y[i] = store<T>(best);
    index.set(i, where);
  }
};

template <class T>
struct MaxPoolGradient {
  using C = Compute<T>;
  PoolAxis h, w;
  Image slopes, to;
  const T* dy;
  WindowIndex index;  // in dy's shape and y's order
  Image index_image;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Place place = place_in(to, i);
    C sum = 0;
    for_outputs(h, w, place, [&](std::int64_t oh, std::int64_t ow) {
      const std::int64_t here = (place.h + h.padding - oh * h.stride) * w.kernel + place.w + w.padding - ow * w.stride;
      if (index.get(index_image.at(place.n, place.c, oh, ow)) == here) {
        sum += load(dy[slopes.at(place.n, place.c, oh, ow)]);
      }
    });
    dx[i] = store<T>(sum);
  }
};

// One over the number of elements that an output averages.
template <class C>
FERRY_FUNCTOR C average_weight(const PoolAxis& h, const PoolAxis& w, bool count_pad, std::int64_t oh, std::int64_t ow) {
  if (count_pad) return C(1) / static_cast<C>(h.kernel * w.kernel);
  const Range rows = h.window(oh), columns = w.window(ow);
  const std::int64_t count = (rows.end - rows.begin) * (columns.end - columns.begin);
  return C(1) / static_cast<C>(count < 1 ? 1 : count);
}

template <class T>
struct AveragePool {
  using C = Compute<T>;
  PoolAxis h, w;
  bool count_pad;
  Image from, to;
  const T* x;
  T* y;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Place place = place_in(to, i);
    C sum = 0;
    for_window(h, w, from, place, [&](std::int64_t at, std::int64_t) { sum += load(x[at]); });
    y[i] = store<T>(sum * average_weight<C>(h, w, count_pad, place.h, place.w));
  }
};

template <class T>
struct AveragePoolGradient {
  using C = Compute<T>;
  PoolAxis h, w;
  bool count_pad;
  Image slopes, to;
  const T* dy;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    const Place place = place_in(to, i);
    C sum = 0;
    for_outputs(h, w, place, [&](std::int64_t oh, std::int64_t ow) {
      sum += load(dy[slopes.at(place.n, place.c, oh, ow)]) * average_weight<C>(h, w, count_pad, oh, ow);
    });
    dx[i] = store<T>(sum);
  }
};

void max_pool2d(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::Pool2dAttributes>();
  const TensorView &x = context.in(0), &y = context.out(0);
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(y.numel(),
                MaxPool<T>{axis_of(a, 0, x.shape[2], y.shape[2]), axis_of(a, 1, x.shape[3], y.shape[3]), image_of(x),
                           image_of(y), x.as<const T>(), y.as<T>(), WindowIndex(context.out(1))});
  });
}

void max_pool2d_backward(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::Pool2dAttributes>();
  const TensorView &dy = context.in(0), &index = context.in(1), &dx = context.out();
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(dx.numel(), MaxPoolGradient<T>{axis_of(a, 0, dx.shape[2], dy.shape[2]),
                                               axis_of(a, 1, dx.shape[3], dy.shape[3]), image_of(dy), image_of(dx),
                                               dy.as<const T>(), WindowIndex(index), image_of(index), dx.as<T>()});
  });
}

void avg_pool2d(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::Pool2dAttributes>();
  const TensorView &x = context.in(0), &y = context.out();
  if (cudnn_average_pool(a, x, y)) return;
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(y.numel(), AveragePool<T>{axis_of(a, 0, x.shape[2], y.shape[2]), axis_of(a, 1, x.shape[3], y.shape[3]),
                                          a.count_include_pad, image_of(x), image_of(y), x.as<const T>(), y.as<T>()});
  });
}

void avg_pool2d_backward(const KernelContext& context) {
  const auto& a = context.attributes.as<ops::Pool2dAttributes>();
  const TensorView &dy = context.in(0), &dx = context.out();
  if (cudnn_average_pool_backward(a, dy, dx)) return;
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(dx.numel(),
                AveragePoolGradient<T>{axis_of(a, 0, dx.shape[2], dy.shape[2]), axis_of(a, 1, dx.shape[3], dy.shape[3]),
                                       a.count_include_pad, image_of(dy), image_of(dx), dy.as<const T>(), dx.as<T>()});
  });
}

// --- resampling: each element of y is a weighted sum of neighbours of x along both axes ---

// Weights of at most two neighbours, or of a window with equal ones.
struct Window {
  std::int64_t first, count;
  double weight, second;  // of the first and all but the second; of the second of two
};

enum class Resampling : std::uint8_t { nearest, linear, mean };

struct ResampleAxis {
  Resampling kind;
  bool align_corners;
  double ratio;
  std::int64_t input, output;

  FERRY_FUNCTOR Window window(std::int64_t o) const {
    const auto at = static_cast<double>(o);
    if (kind == Resampling::mean) {
      const std::int64_t first = o * input / output, last = ((o + 1) * input + output - 1) / output;
      const double weight = 1 / static_cast<double>(last - first);
      return {first, last - first, weight, weight};
    }
    if (kind == Resampling::nearest) {
      const auto place = static_cast<std::int64_t>(at * ratio);
      return {place < input - 1 ? place : input - 1, 1, 1, 0};
    }
    const double step = output > 1 ? static_cast<double>(input - 1) / static_cast<double>(output - 1) : 0;
    const double centre = (at + 0.5) * ratio - 0.5, place = align_corners ? at * step : centre < 0 ? 0 : centre;
    const auto whole = static_cast<std::int64_t>(place);
    const std::int64_t first = whole < input - 1 ? whole : input - 1;
    const double rest = place - static_cast<double>(first);
    // Never a weight of 0, which would make NaN of an infinite neighbour.
    if (first + 1 < input && rest > 0) return {first, 2, 1 - rest, rest};
    return {first, 1, 1, 0};
  }
  FERRY_FUNCTOR double weight(const Window& window, std::int64_t i) const {
    return window.count == 2 && i == 1 ? window.second : window.weight;
  }
  // The first output whose window reaches input `i`; windows move on with the output.
  FERRY_FUNCTOR std::int64_t first_output(std::int64_t i) const {
    std::int64_t low = 0, high = output;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      const Window reached = window(middle);
      if (reached.first + reached.count <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

template <class T>
struct Resample {
  ResampleAxis h, w;
  Image from, to;
  const T* x;
  T* y;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    using C = Compute<T>;
    const Place place = place_in(to, i);
    const Window rows = h.window(place.h), columns = w.window(place.w);
    C sum = 0;
    for (std::int64_t r = 0; r < rows.count; ++r) {
      C row = 0;
      for (std::int64_t q = 0; q < columns.count; ++q) {
        row += load(x[from.at(place.n, place.c, rows.first + r, columns.first + q)]) *
               static_cast<C>(w.weight(columns, q));
      }
      sum += row * static_cast<C>(h.weight(rows, r));
    }
    y[i] = store<T>(sum);
  }
};

template <class T>
struct ResampleGradient {
  ResampleAxis h, w;
  Image slopes, to;
  const T* dy;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    using C = Compute<T>;
    const Place place = place_in(to, i);
    const std::int64_t first_row = h.first_output(place.h), first_column = w.first_output(place.w);
    C sum = 0;
    for (std::int64_t oh = first_row; oh < h.output; ++oh) {
      const Window rows = h.window(oh);
      if (rows.first > place.h) break;
      C row = 0;
      for (std::int64_t ow = first_column; ow < w.output; ++ow) {
        const Window columns = w.window(ow);
        if (columns.first > place.w) break;
        row +=
            load(dy[slopes.at(place.n, place.c, oh, ow)]) * static_cast<C>(w.weight(columns, place.w - columns.first));
      }
      sum += row * static_cast<C>(h.weight(rows, place.h - rows.first));
    }
    dx[i] = store<T>(sum);
  }
};

ResampleAxis axis_of(const ops::Upsample2dAttributes& a, int i, std::int64_t input, std::int64_t output) {
  return {a.mode == UpsampleMode::nearest ? Resampling::nearest : Resampling::linear, a.align_corners, a.ratio[i],
          input, output};
}
ResampleAxis axis_of(const ops::AdaptivePool2dAttributes&, int, std::int64_t input, std::int64_t output) {
  return {Resampling::mean, false, 1, input, output};
}

template <class Attributes>
void resample(const KernelContext& context) {
  const auto& a = context.attributes.as<Attributes>();
  const TensorView &x = context.in(0), &y = context.out();
  visit_floats(context, x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(y.numel(), Resample<T>{axis_of(a, 0, x.shape[2], y.shape[2]), axis_of(a, 1, x.shape[3], y.shape[3]),
                                       image_of(x), image_of(y), x.as<const T>(), y.as<T>()});
  });
}

template <class Attributes>
void resample_backward(const KernelContext& context) {
  const auto& a = context.attributes.as<Attributes>();
  const TensorView &dy = context.in(0), &dx = context.out();
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each<1>(dx.numel(),
                ResampleGradient<T>{axis_of(a, 0, dx.shape[2], dy.shape[2]), axis_of(a, 1, dx.shape[3], dy.shape[3]),
                                    image_of(dy), image_of(dx), dy.as<const T>(), dx.as<T>()});
  });
}

constexpr KernelEntry kEntries[] = {
    {"max_pool2d", max_pool2d},
    {"max_pool2d_backward", max_pool2d_backward},
    {"avg_pool2d", avg_pool2d},
    {"avg_pool2d_backward", avg_pool2d_backward},
    {"upsample2d", resample<ops::Upsample2dAttributes>},
    {"upsample2d_backward", resample_backward<ops::Upsample2dAttributes>},
    {"adaptive_avg_pool2d", resample<ops::AdaptivePool2dAttributes>},
    {"adaptive_avg_pool2d_backward", resample_backward<ops::AdaptivePool2dAttributes>},
};

}  // namespace

std::span<const KernelEntry> pooling_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
