// gather, index_select, where, masked_fill and their gradients.
#include "src/backends/cuda/dispatch.h"
#include "src/backends/cuda/elements.h"
#include "src/backends/cuda/for_each.h"
#include "src/backends/cuda/kernel_list.h"
#include "src/backends/cuda/layout.h"
#include "src/backends/cuda/views.h"
#include "src/kernels/convert.h"
#include "src/ops/indexing.h"

namespace ferry::cuda_backend {
namespace {

template <class Word>
struct Gather {
  Layout<3> layout;  // y, x's rows, index
  std::int64_t step, extent;
  Word* y;
  const Word* x;
  Indices index;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[3];
    layout.find(i, at);
    const std::int64_t where = index[at[2]];
    if (where < 0 || where >= extent) return sink.raise(at[2], where);
    y[at[0]] = x[at[1] + where * step];
  }
};

// One line of dx along the axis: dx[index[i]] += dy[i], i ascending.
template <class T>
struct ScatterLine {
  Layout<3> lines;  // dx, dy, index: their first elements
  std::int64_t length, extent, dx_step, dy_step, index_step;
  T* dx;  // zero; not 16 bits wide
  Values<T> dy;
  Indices index;
  FaultSink sink;

  FERRY_FUNCTOR void operator()(std::int64_t line) const {
    std::int64_t at[3];
    lines.find(line, at);
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t where = index[at[2] + i * index_step];
      if (where < 0 || where >= extent) {
        sink.raise(at[2] + i * index_step, where);
      } else {
        dx[at[0] + where * dx_step] += dy[at[1] + i * dy_step];
      }
    }
  }
};

int axis_of(const KernelContext& context) { return context.attributes.as<ops::GatherAttributes>().axis; }

FaultSink sink_of(const KernelContext& context, std::string_view name, const Shape& x, int axis) {
  return index_sink(context, name, "axis " + std::to_string(axis) + " of", x, 0, x[axis]);
}

// indices [n] seen as an index of `shape`, the same for all rows along `axis`.
TensorView repeated(const TensorView& indices, const Shape& shape, int axis) {
  TensorView index = indices;
  index.shape = shape;
  index.strides = Dims::filled(shape.rank(), 0);
  index.strides[axis] = 1;
  return index;
}

void gather_along(const KernelContext& context, const TensorView& index, const FaultSink& sink) {
  const TensorView &x = context.in(0), &y = context.out();
  const int axis = axis_of(context);
  TensorView rows = x;
  rows.shape = y.shape;
  rows.strides[axis] = 0;
  visit_words(context, y.dtype, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    for_each(y.numel(), Gather<Word>{make_layout<3>({&y, &rows, &index}), x.strides[axis], x.shape[axis], y.as<Word>(),
                                     x.as<const Word>(), Indices(index), sink});
  });
}

void scatter_along(const KernelContext& context, const TensorView& index, const FaultSink& sink) {
  const TensorView &dy = context.in(0), &dx = context.out();
  const int axis = axis_of(context);
  // 16-bit floats are summed in float and rounded once.
  const bool narrow = size_of(dx.dtype) == 2;
  const TensorView sums = narrow ? scratch_view(DType::f32, dx.shape) : dx;
  fill_view(context, sums, 0);
  if (dy.numel() > 0) {
    TensorView to = sums, from = dy, lines = index;
    to.shape = from.shape = lines.shape = dy.shape;
    to.shape[axis] = from.shape[axis] = lines.shape[axis] = 1;
    visit_types<float, double>(context, sums.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_each<1>(to.numel(), ScatterLine<T>{make_layout<3>({&to, &from, &lines}),
                                             dy.shape[axis],
                                             dx.shape[axis],
                                             sums.strides[axis],
                                             dy.strides[axis],
                                             index.strides[axis],
                                             sums.as<T>(),
                                             {dy.data, dy.dtype, T(0)},
                                             Indices(index),
                                             sink});
    });
  }
  if (narrow) copy_view(context, dx, sums);
}

void gather(const KernelContext& context) {
  gather_along(context, context.in(1), sink_of(context, "index", context.in(0).shape, axis_of(context)));
}
void gather_backward(const KernelContext& context) {
  scatter_along(context, context.in(1), sink_of(context, "index", context.out().shape, axis_of(context)));
}
void index_select(const KernelContext& context) {
  const int axis = axis_of(context);
  gather_along(context, repeated(context.in(1), context.out().shape, axis),
               sink_of(context, "indices", context.in(0).shape, axis));
}
void index_select_backward(const KernelContext& context) {
  const int axis = axis_of(context);
  scatter_along(context, repeated(context.in(1), context.in(0).shape, axis),
                sink_of(context, "indices", context.out().shape, axis));
}

// y = condition ? a : b; null for one of them: `value`.
template <class Word>
struct Choose {
  Layout<4> layout;
  Word* y;
  const bool* condition;
  const Word* a;
  const Word* b;
  const Word* value;

  FERRY_FUNCTOR void operator()(std::int64_t i) const {
    std::int64_t at[4];
    layout.find(i, at);
    const bool first = condition[at[1]];
    y[at[0]] = first ? (a == nullptr ? *value : a[at[2]]) : (b == nullptr ? *value : b[at[3]]);
  }
};

void choose(const KernelContext& context, const TensorView& condition, const TensorView* a, const TensorView* b,
            const void* value) {
  const TensorView& y = context.out();
  const TensorView& any = a != nullptr ? *a : *b;
  visit_words(context, y.dtype, [&](auto tag) {
    using Word = typename decltype(tag)::type;
    for_each(y.numel(),
             Choose<Word>{make_layout<4>({&y, &condition, a == nullptr ? &any : a, b == nullptr ? &any : b}),
                          y.as<Word>(), condition.as<const bool>(), a == nullptr ? nullptr : a->as<const Word>(),
                          b == nullptr ? nullptr : b->as<const Word>(), static_cast<const Word*>(value)});
  });
}

void where(const KernelContext& context) { choose(context, context.in(0), &context.in(1), &context.in(2), nullptr); }

void masked_fill(const KernelContext& context) {
  const TensorView &x = context.in(0), &mask = context.in(1);
  const auto& a = context.attributes.as<ops::MaskedFillAttributes>();
  const TensorView value = scratch_view(context.out().dtype, {1});
  fill_view(context, value, a.value);
  a.filled ? choose(context, mask, nullptr, &x, value.data) : choose(context, mask, &x, nullptr, value.data);
}

constexpr KernelEntry kEntries[] = {
    {"gather", gather},
    {"gather_backward", gather_backward},
    {"index_select", index_select},
    {"index_select_backward", index_select_backward},
    {"where", where},
    {"masked_fill", masked_fill},
};

}  // namespace

std::span<const KernelEntry> indexing_kernels() { return kEntries; }

}  // namespace ferry::cuda_backend
