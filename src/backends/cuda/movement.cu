// Creation, copies, slices and padding.
#include <cstring>

#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/convert.h"
#include "src/ops/attributes.h"
#include "src/ops/indexing.h"

namespace ferry::cuda_backend {
namespace {

// Elements of any dtype, read as the widest type of their kind.
struct Source {
  const void* data;
  DType dtype;

  template <class To>
  FERRY_FUNCTOR To get(std::int64_t i) const {
    switch (dtype) {
      case DType::f32:
        return kernels::convert<To>(static_cast<const float*>(data)[i]);
      case DType::f64:
        return kernels::convert<To>(static_cast<const double*>(data)[i]);
      case DType::f16:
        return kernels::convert<To>(static_cast<const float16*>(data)[i]);
      case DType::bf16:
        return kernels::convert<To>(static_cast<const bfloat16*>(data)[i]);
      case DType::i32:
        return kernels::convert<To>(static_cast<const std::int32_t*>(data)[i]);
      case DType::i64:
        return kernels::convert<To>(static_cast<const std::int64_t*>(data)[i]);
      case DType::u8:
        return kernels::convert<To>(static_cast<const std::uint8_t*>(data)[i]);
      default:
        return kernels::convert<To>(static_cast<const bool*>(data)[i]);
    }
  }
};

template <class To>
struct Convert {
  Layout<2> layout;
  To* y;
  Source x;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[2];
    layout.find(i, at);
    y[at[0]] = x.get<To>(at[1]);
  }
};

template <class Word>
struct Copy {
  Layout<2> layout;
  Word* y;
  const Word* x;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[2];
    layout.find(i, at);
    y[at[0]] = x[at[1]];
  }
};

template <class T>
struct AddTo {
  Layout<2> layout;
  T* y;
  Values<Compute<T>> x;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[2];
    layout.find(i, at);
    y[at[0]] = store<T>(load(y[at[0]]) + x[at[1]]);
  }
};

template <class Word>
struct Fill {
  Layout<1> layout;
  Word* y;
  Word value;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[1];
    layout.find(i, at);
    y[at[0]] = value;
  }
};

template <class Body>
void visit_all(const KernelContext& context, DType dtype, const Body& body) {
  visit_types<float, double, float16, bfloat16, std::int32_t, std::int64_t, std::uint8_t, bool>(context, dtype, body);
}

// The bits of `value` as an element of `dtype`.
template <class Word>
Word word_of(const KernelContext& context, DType dtype, double value) {
  Word word{};
  visit_all(context, dtype, [&](auto tag) {
    const auto element = kernels::convert<typename decltype(tag)::type>(value);
    if constexpr (sizeof(element) == sizeof(Word)) std::memcpy(&word, &element, sizeof word);
  });
  return word;
}

template <class T>
struct Arange {
  T* y;
  double start, step;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    y[i] = kernels::convert<T>(start + static_cast<double>(i) * step);
  }
};

// --- padding ---

struct PadAxes {
  int rank;
  std::int64_t begin[kMaxRank], extent[kMaxRank], y_extent[kMaxRank], x_stride[kMaxRank], y_stride[kMaxRank];
};

// The position of x that `at`, a position of the padded axis, shows; -1: none.
FERRY_FUNCTOR std::int64_t padded_source(PadMode mode, std::int64_t at, std::int64_t begin, std::int64_t extent) {
  const std::int64_t offset = at - begin;
  if (offset >= 0 && offset < extent) return offset;
  if (mode == PadMode::constant) return -1;
  if (mode == PadMode::replicate) return offset < 0 ? 0 : extent - 1;
  return offset < 0 ? -offset : 2 * (extent - 1) - offset;
}

template <class Word>
struct Pad {
  PadAxes axes;
  PadMode mode;
  Word* y;
  const Word* x;
  Word value;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t from = 0, to = 0;
    bool inside = true;
    for (int axis = axes.rank - 1; axis >= 0; --axis) {
      const std::int64_t at = i % axes.y_extent[axis];
      i /= axes.y_extent[axis];
      to += at * axes.y_stride[axis];
      const std::int64_t source = padded_source(mode, at, axes.begin[axis], axes.extent[axis]);
      inside = inside && source >= 0;
      from += source * axes.x_stride[axis];
    }
    y[to] = inside ? x[from] : value;
  }
};

// Each element of dx looks for the positions of dy that showed it, so that they are added in a fixed order: along each
// axis itself, the border before and the border after.
template <class T>
struct PadGradient {
  PadAxes axes;
  PadMode mode;
  const T* dy;
  T* dx;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t position[kMaxRank], to = 0;
    for (int axis = axes.rank - 1; axis >= 0; --axis) {
      position[axis] = i % axes.extent[axis];
      i /= axes.extent[axis];
      to += position[axis] * axes.x_stride[axis];
    }
    dx[to] = store<T>(sum(position));
  }

 private:
  FERRY_FUNCTOR bool shows(int axis, std::int64_t at, std::int64_t source) const {
    return padded_source(mode, at, axes.begin[axis], axes.extent[axis]) == source;
  }
  // Over all positions of dy by counting through them, an axis at a time.
  FERRY_FUNCTOR Compute<T> sum(const std::int64_t (&position)[kMaxRank]) const {
    Compute<T> total = 0;
    std::int64_t at[kMaxRank];
    for (int axis = 0; axis < axes.rank; ++axis) at[axis] = first(axis, position[axis], 0);
    for (;;) {
      std::int64_t offset = 0;
      for (int axis = 0; axis < axes.rank; ++axis) offset += at[axis] * axes.y_stride[axis];
      total += load(dy[offset]);
      int axis = axes.rank - 1;
      for (; axis >= 0; --axis) {
        at[axis] = first(axis, position[axis], at[axis] + 1);
        if (at[axis] < axes.y_extent[axis]) break;
        at[axis] = first(axis, position[axis], 0);
      }
      if (axis < 0) return total;
    }
  }
  // The first position from `from` on that shows `source`.
  FERRY_FUNCTOR std::int64_t first(int axis, std::int64_t source, std::int64_t from) const {
    const std::int64_t own = axes.begin[axis] + source, end = axes.y_extent[axis];
    // Borders are walked through, what is x's own is jumped to.
    for (std::int64_t at = from; at < end; ++at) {
      if (at >= axes.begin[axis] && at < axes.begin[axis] + axes.extent[axis]) {
        if (at <= own) return own;
        at = axes.begin[axis] + axes.extent[axis] - 1;
        continue;
      }
      if (shows(axis, at, source)) return at;
    }
    return end;
  }
};

PadAxes pad_axes(const ops::PadAttributes& a, const TensorView& x, const TensorView& y) {
  PadAxes axes{};
  axes.rank = x.shape.rank();
  for (int axis = 0; axis < axes.rank; ++axis) {
    axes.begin[axis] = a.begins[axis];
    axes.extent[axis] = x.shape[axis];
    axes.y_extent[axis] = y.shape[axis];
    axes.x_stride[axis] = x.strides[axis];
    axes.y_stride[axis] = y.strides[axis];
  }
  return axes;
}

void pad(const KernelContext& context) {
  const TensorView &x = context.in(0), &y = context.out();
  const auto& a = context.attributes.as<ops::PadAttributes>();
  if (x.numel() == 0) return fill_view(context, y, a.value);
  visit_words(context, y.dtype, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    for_each(y.numel(), Pad<Word>{pad_axes(a, x, y), a.mode, y.as<Word>(), x.as<const Word>(),
                                  word_of<Word>(context, y.dtype, a.value)});
  });
}

void pad_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &dx = context.out();
  const auto& a = context.attributes.as<ops::PadAttributes>();
  visit_floats(context, dx.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(dx.numel(), PadGradient<T>{pad_axes(a, dx, dy), a.mode, dy.as<const T>(), dx.as<T>()});
  });
}

// --- creation and copies ---

void fill(const KernelContext& context) {
  fill_view(context, context.out(), context.attributes.as<ops::FillAttributes>().value);
}

void arange(const KernelContext& context) {
  const TensorView& y = context.out();
  const auto& a = context.attributes.as<ops::ArangeAttributes>();
  visit_all(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(y.numel(), Arange<T>{y.as<T>(), a.start, a.step});
  });
}

void copy(const KernelContext& context) { copy_view(context, context.out(), context.in(0)); }
void copy_in_place(const KernelContext& context) { copy_view(context, context.out(), context.in(1)); }

void slice(const KernelContext& context) {
  const TensorView& y = context.out();
  const auto& a = context.attributes.as<ops::SliceAttributes>();
  copy_view(context, y, part_of(context.in(0), a.starts, a.steps, y.shape));
}

void slice_backward(const KernelContext& context) {
  const TensorView &dy = context.in(0), &dx = context.out();
  const auto& a = context.attributes.as<ops::SliceAttributes>();
  fill_view(context, dx, 0);
  copy_view(context, part_of(dx, a.starts, a.steps, dy.shape), dy);
}

void concat(const KernelContext& context) {
  const TensorView& y = context.out();
  const int axis = context.attributes.as<ops::AxisAttributes>().axis;
  Dims starts = Dims::filled(y.shape.rank(), 0);
  const Dims steps = Dims::filled(y.shape.rank(), 1);
  for (const TensorView& x : context.inputs) {
    if (x.numel() > 0) copy_view(context, part_of(y, starts, steps, x.shape), x);
    starts[axis] += x.shape[axis];
  }
}

constexpr KernelEntry kEntries[] = {
    {"fill", fill},
    {"fill_", fill},
    {"arange", arange},
    {"copy", copy},
    {"copy_", copy_in_place},
    {"slice", slice},
    {"crop", slice},
    {"slice_backward", slice_backward},
    {"concat", concat},
    {"pad", pad},
    {"pad_backward", pad_backward},
};

}  // namespace

void fill_view(const KernelContext& context, const TensorView& y, double value) {
  visit_words(context, y.dtype, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    for_each(y.numel(), Fill<Word>{make_layout<1>({&y}), y.as<Word>(), word_of<Word>(context, y.dtype, value)});
  });
}

void copy_view(const KernelContext& context, const TensorView& y, const TensorView& x) {
  if (x.dtype == y.dtype) {
    const Layout<2> layout = make_layout<2>({&y, &x});
    if (layout.count == 0) return;
    if (layout.flat) {
      FERRY_CUDA(cudaMemcpyAsync(y.data, x.data, static_cast<std::size_t>(layout.count * size_of(y.dtype)),
                                 cudaMemcpyDeviceToDevice, LaunchScope::current().stream()));
      return;
    }
    return visit_words(context, y.dtype, [&](auto tag) {
      using Word = typename decltype(tag)::type;
      for_each(y.numel(), Copy<Word>{layout, y.as<Word>(), x.as<const Word>()});
    });
  }
  visit_all(context, y.dtype, [&](auto tag) {
    using To = typename decltype(tag)::type;
    for_each(y.numel(), Convert<To>{make_layout<2>({&y, &x}), y.as<To>(), {x.data, x.dtype}});
  });
}

void add_view(const KernelContext& context, const TensorView& y, const TensorView& x) {
  visit_floats(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(y.numel(), AddTo<T>{make_layout<2>({&y, &x}), y.as<T>(), {x.data, x.dtype, Compute<T>(0)}});
  });
}

TensorView part_of(const TensorView& whole, const Dims& starts, const Dims& steps, const Shape& shape) {
  TensorView part = whole;
  part.shape = shape;
  if (shape.product() == 0) return part;
  std::int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    offset += starts[axis] * whole.strides[axis];
    part.strides[axis] = whole.strides[axis] * steps[axis];
  }
  part.data = whole.as<std::byte>() + offset * size_of(whole.dtype);
  return part;
}

TensorView scratch_view(DType dtype, const Shape& shape, const Strides& strides) {
  return {.data = LaunchScope::current().scratch<std::byte>(shape.product() * size_of(dtype)),
          .dtype = dtype,
          .given = true,
          .shape = shape,
          .strides = strides};
}
TensorView scratch_view(DType dtype, const Shape& shape) {
  return scratch_view(dtype, shape, contiguous_strides(shape));
}

std::span<const KernelEntry> movement_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
