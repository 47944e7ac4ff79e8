// split and stack.
#include <algorithm>
#include <numeric>

#include <ferry/no_grad.h>
#include "src/base/check.h"
#include "src/ops/gradient.h"
#include "src/ops/indexing.h"
#include "src/ops/invoke.h"
#include "src/tensor/tensor_impl.h"

namespace ferry::ops {
namespace {

// Zeros for a part that nothing flowed to, of one stored element.
Tensor no_gradient(const Tensor& like, const Shape& shape, Where where) {
  const RuntimeOf runtime(like);
  return expand(zeros(Dims::filled(shape.rank(), 1), like.dtype(), where), shape, where);
}

void gradient_split(GradientContext& context) {
  const auto& attributes = context.attributes<SplitAttributes>();
  const auto parts = static_cast<std::size_t>(attributes.count);
  std::vector<Tensor> gradients(parts);
  const Tensor* given = nullptr;
  for (std::size_t i = 0; i < parts; ++i) {
    gradients[i] = context.dy(i);
    if (gradients[i].defined()) given = &gradients[i];
  }
  for (std::size_t i = 0; i < parts; ++i) {
    if (gradients[i].defined()) continue;
    Shape shape = context.shape(0);
    shape[attributes.axis] = attributes.equal > 0 ? attributes.equal : attributes.sizes[i];
    gradients[i] = no_gradient(*given, shape, context.where());
  }
  context.set(0, concat(gradients, attributes.axis, context.where()));
}

// Throws: ShapeError, InvalidArgument.
void check_sizes(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis) {
  FERRY_CHECK(!sizes.empty(), InvalidArgument, "split: needs at least one size");
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    FERRY_CHECK(size >= 0, InvalidArgument, "split: size {} is negative", size);
    FERRY_CHECK(size <= x.shape()[axis] - total, ShapeError, "split: {} + {} elements reach beyond axis {} of {}",
                total, size, axis, describe(x));
    total += size;
  }
  FERRY_CHECK(total == x.shape()[axis], ShapeError, "split: the sizes add up to {}, but axis {} of {} has {} elements",
              total, axis, describe(x), x.shape()[axis]);
}

std::vector<Tensor> narrowed(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis, Where where) {
  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(narrow(x, axis, start, size, where));
    start += size;
  }
  return parts;
}

}  // namespace

const OpSchema kSplit{.name = "split",
                      .op_class = OpClass::metadata,
                      .arguments = {"x"},
                      .gradient = gradient_split,
                      .autocast = AutocastRule::as_is};

}  // namespace ferry::ops

namespace ferry {

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis, Where where) {
  return ops::located("split", x, where, [&] {
    const int wrapped = ops::wrap_axis("split", axis, x.rank());
    ops::check_sizes(x, sizes, wrapped);
    const bool equal = std::ranges::all_of(sizes, [&](std::int64_t size) { return size == sizes[0] && size > 0; });
    // More sizes than a call's attributes hold: each part has a gradient of its own.
    if (!grad_enabled() || (!equal && sizes.size() > ops::SplitAttributes::kMaxSizes)) {
      return ops::narrowed(x, sizes, wrapped, where);
    }
    std::vector<Tensor> parts;
    {
      const NoGrad no_grad;
      parts = ops::narrowed(x, sizes, wrapped, where);
    }
    ops::SplitAttributes attributes{.axis = wrapped, .count = static_cast<std::int64_t>(sizes.size())};
    if (equal) {
      attributes.equal = sizes[0];
    } else {
      std::ranges::copy(sizes, attributes.sizes);
    }
    const Tensor* inputs[] = {&x};
    ops::record_in_graph(ops::kSplit, inputs, attributes, where, parts);
    return parts;
  });
}

std::vector<Tensor> split(const Tensor& x, std::int64_t count, int axis, Where where) {
  const std::vector<std::int64_t> sizes = ops::located("split", x, where, [&] {
    const int wrapped = ops::wrap_axis("split", axis, x.rank());
    const std::int64_t extent = x.shape()[wrapped];
    FERRY_CHECK(count > 0, InvalidArgument, "split: {} parts; it needs at least one", count);
    FERRY_CHECK(extent % count == 0, ShapeError,
                "split: axis {} of {} does not divide into {} equal parts; give their sizes", wrapped, describe(x),
                count);
    return std::vector<std::int64_t>(static_cast<std::size_t>(count), extent / count);
  });
  return split(x, sizes, axis, where);
}

Tensor stack(const std::vector<Tensor>& xs, int axis, Where where) {
  return ops::located("stack", where, [&] {
    FERRY_CHECK(!xs.empty(), InvalidArgument, "stack: needs at least one tensor");
    std::vector<Tensor> slices;
    slices.reserve(xs.size());
    for (const Tensor& x : xs) {
      FERRY_CHECK(x.defined(), InvalidArgument, "stack: xs[{}] is an undefined tensor", slices.size());
      FERRY_CHECK(x.shape() == xs[0].shape(), ShapeError, "stack: xs[0] is {} and xs[{}] is {}; shapes must be equal",
                  describe(xs[0]), slices.size(), describe(x));
      const int place = ops::wrap_axis("stack", axis, x.rank() + 1);
      Shape shape;
      for (int i = 0; i <= x.rank(); ++i) {
        shape.push_back(i == place ? 1 : x.shape()[i < place ? i : i - 1]);
      }
      slices.push_back(reshape(x, shape, where));
    }
    return concat(slices, axis, where);
  });
}

}  // namespace ferry
