#include <algorithm>

#include "src/backends/cpu/conv2d.h"
#include "src/backends/cpu/parallel.h"

namespace ferry::cpu_backend {
namespace {

// The positions k of a kernel axis, and for each the output position it meets input position `at` from, or the input
// position it reads for output position `at`.
struct Axis {
  std::int64_t input, output, kernel, stride, padding, dilation;

  // Input position of kernel position k at output position `at`; negative or ≥ input: padding.
  std::int64_t source(std::int64_t at, std::int64_t k) const { return at * stride - padding + k * dilation; }
  // Output position that reads input position `at` through kernel position k; -1: none.
  std::int64_t target(std::int64_t at, std::int64_t k) const {
    const std::int64_t shifted = at + padding - k * dilation;
    if (shifted < 0 || shifted % stride != 0 || shifted / stride >= output) return -1;
    return shifted / stride;
  }
};

struct Sizes {
  std::int64_t n, groups, in, out;  // channels a group
  Axis h, w;
};

Sizes sizes_of(const Conv2dArguments& arguments) {
  const ops::Conv2dAttributes& a = arguments.attributes;
  const auto axis = [&](int i) {
    return Axis{arguments.x.shape[i + 2],
                arguments.y.shape[i + 2],
                arguments.w.shape[i + 2],
                a.stride[i],
                a.padding[i],
                a.dilation[i]};
  };
  return {.n = arguments.x.shape[0],
          .groups = a.groups,
          .in = arguments.w.shape[1],
          .out = arguments.w.shape[0] / a.groups,
          .h = axis(0),
          .w = axis(1)};
}

double& at(const TensorView& view, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  const Strides& s = view.strides;
  return view.as<double>()[a * s[0] + b * s[1] + c * s[2] + d * s[3]];
}

// One output element, without bias.
double forward_at(const Conv2dArguments& p, const Sizes& s, std::int64_t n, std::int64_t o, std::int64_t oh,
                  std::int64_t ow) {
  const std::int64_t first = o / s.out * s.in;
  double sum = 0;
  for (std::int64_t c = 0; c < s.in; ++c) {
    for (std::int64_t r = 0; r < s.h.kernel; ++r) {
      const std::int64_t ih = s.h.source(oh, r);
      if (ih < 0 || ih >= s.h.input) continue;
      for (std::int64_t q = 0; q < s.w.kernel; ++q) {
        const std::int64_t iw = s.w.source(ow, q);
        if (iw >= 0 && iw < s.w.input) sum += at(p.x, n, first + c, ih, iw) * at(p.w, o, c, r, q);
      }
    }
  }
  return sum;
}

double backward_input_at(const Conv2dArguments& p, const Sizes& s, std::int64_t n, std::int64_t c, std::int64_t ih,
                         std::int64_t iw) {
  const std::int64_t first = c / s.in * s.out;
  double sum = 0;
  for (std::int64_t o = first; o < first + s.out; ++o) {
    for (std::int64_t r = 0; r < s.h.kernel; ++r) {
      const std::int64_t oh = s.h.target(ih, r);
      if (oh < 0) continue;
      for (std::int64_t q = 0; q < s.w.kernel; ++q) {
        const std::int64_t ow = s.w.target(iw, q);
        if (ow >= 0) sum += at(p.y, n, o, oh, ow) * at(p.w, o, c % s.in, r, q);
      }
    }
  }
  return sum;
}

double backward_weight_at(const Conv2dArguments& p, const Sizes& s, std::int64_t o, std::int64_t c, std::int64_t r,
                          std::int64_t q) {
  const std::int64_t channel = o / s.out * s.in + c;
  double sum = 0;
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t oh = 0; oh < s.h.output; ++oh) {
      const std::int64_t ih = s.h.source(oh, r);
      if (ih < 0 || ih >= s.h.input) continue;
      for (std::int64_t ow = 0; ow < s.w.output; ++ow) {
        const std::int64_t iw = s.w.source(ow, q);
        if (iw >= 0 && iw < s.w.input) sum += at(p.y, n, o, oh, ow) * at(p.x, n, channel, ih, iw);
      }
    }
  }
  return sum;
}

// Calls value(a, b, c, d) for each element of a 4-D view and stores what it returns.
template <class Value>
void fill(const TensorView& view, const Value& value) {
  const Shape& shape = view.shape;
  parallel_for(shape[0] * shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t c = 0; c < shape[2]; ++c) {
        for (std::int64_t d = 0; d < shape[3]; ++d) {
          at(view, i / shape[1], i % shape[1], c, d) = value(i / shape[1], i % shape[1], c, d);
        }
      }
    }
  });
}

void bias_gradient(const Conv2dArguments& p) {
  const Shape& shape = p.y.shape;
  parallel_for(shape[1], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      double sum = 0;
      for (std::int64_t n = 0; n < shape[0]; ++n) {
        for (std::int64_t h = 0; h < shape[2]; ++h) {
          for (std::int64_t w = 0; w < shape[3]; ++w) sum += at(p.y, n, o, h, w);
        }
      }
      p.bias.as<double>()[o * p.bias.strides[0]] = sum;
    }
  });
}

}  // namespace

void conv2d_f64(const Conv2dArguments& p) {
  const Sizes s = sizes_of(p);
  switch (p.product) {
    case Conv2dProduct::forward:
      fill(p.y, [&](std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
        const double bias = p.bias.given ? p.bias.as<double>()[o * p.bias.strides[0]] : 0.0;
        return bias + forward_at(p, s, n, o, oh, ow);
      });
      break;
    case Conv2dProduct::backward_input:
      fill(p.x, [&](std::int64_t n, std::int64_t c, std::int64_t ih, std::int64_t iw) {
        return backward_input_at(p, s, n, c, ih, iw);
      });
      break;
    case Conv2dProduct::backward_weight:
      fill(p.w, [&](std::int64_t o, std::int64_t c, std::int64_t r, std::int64_t q) {
        return backward_weight_at(p, s, o, c, r, q);
      });
      if (p.bias.given) bias_gradient(p);
      break;
  }
}

}  // namespace ferry::cpu_backend
