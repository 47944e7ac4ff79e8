// Reductions made of other ops: each is a few passes, and its gradient theirs.
#include <ferry/reductions.h>

#include <algorithm>
#include <limits>

#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/ops/wide.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

using ops::located;

// x in the dtype that it is computed in, and the number of elements that each result is made of.
struct Reduced {
  Tensor x;
  std::int64_t count = 1;
};

// Throws: InvalidArgument, naming the op, for an undefined or integer x and for axes that do not exist.
Reduced prepared(std::string_view op, const Tensor& x, const std::vector<int>& axes, Where where) {
  return located(op, x, where, [&] {
    FERRY_CHECK(is_floating(x.dtype()), InvalidArgument, "{}: argument 'x' is {}; it needs f32, f64, f16 or bf16", op,
                describe(x));
    Dims reduced = Dims::filled(x.rank(), axes.empty() ? 1 : 0);
    for (const int axis : axes) reduced[ops::wrap_axis(op, axis, x.rank())] = 1;
    Reduced result{x.to(ops::wide(x.dtype()), where)};
    for (int i = 0; i < x.rank(); ++i) result.count *= reduced[i] != 0 ? x.shape()[i] : 1;
    return result;
  });
}

double largest_of(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::max()
                             : static_cast<double>(std::numeric_limits<float>::max());
}

// y with the reduced axes, or without.
Tensor shaped(const Tensor& y, const std::vector<int>& axes, bool keepdim, Where where) {
  if (keepdim) return y;
  Shape shape;
  for (int i = 0; i < y.rank(); ++i) {
    const bool reduced =
        axes.empty() || std::ranges::any_of(axes, [&](int axis) { return (axis + y.rank()) % y.rank() == i; });
    if (!reduced) shape.push_back(y.shape()[i]);
  }
  return reshape(y, shape, where);
}

}  // namespace

Tensor min(const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  const auto [wide, count] = prepared("min", x, axes, where);
  located("min", where, [&, n = count] {
    FERRY_CHECK(n > 0, ShapeError, "min: argument 'x' is {}: a minimum of no elements does not exist", describe(x));
  });
  return neg(max(neg(x, where), axes, keepdim, where), where);
}

Tensor variance(const Tensor& x, const std::vector<int>& axes, double correction, bool keepdim, Where where) {
  const auto [wide, count] = prepared("variance", x, axes, where);
  const Tensor squares = square(sub(wide, mean(wide, axes, true, where), where), where);
  const double freedom = std::max(0.0, static_cast<double>(count) - correction);
  const double share = count == 0 ? std::numeric_limits<double>::quiet_NaN() : 1 / freedom;
  return mul(sum(squares, axes, keepdim, where), share, where).to(x.dtype(), where);
}

Tensor logsumexp(const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  const auto [wide, count] = prepared("logsumexp", x, axes, where);
  located("logsumexp", where, [&, n = count] {
    FERRY_CHECK(n > 0, ShapeError, "logsumexp: argument 'x' is {}: a maximum of no elements does not exist",
                describe(x));
  });
  // Infinities would cancel in x - largest; finite numbers leave the sum to say what they come to.
  const ops::RuntimeOf runtime(x);
  const Tensor top = full({}, largest_of(wide.dtype()), wide.dtype(), where);
  const Tensor largest = max(wide, axes, true, where).detach();
  const Tensor anchor = maximum(minimum(largest, top, where), neg(top, where), where);
  const Tensor total = sum(exp(sub(wide, anchor, where), where), axes, true, where);
  return shaped(add(log(total, where), anchor, where), axes, keepdim, where).to(x.dtype(), where);
}

Tensor norm(const Tensor& x, const std::vector<int>& axes, bool keepdim, Where where) {
  const Tensor wide = prepared("norm", x, axes, where).x;
  const Tensor squares = sum(square(wide, where), axes, keepdim, where);
  // The root has no slope at 0: there sqrt(1) - 1 stands for it, whose gradient meets x = 0.
  const ops::RuntimeOf runtime(x);
  const Tensor none = equal(squares.detach(), full({}, 0, squares.dtype(), where), where).to(squares.dtype(), where);
  return sub(sqrt(add(squares, none, where), where), none, where).to(x.dtype(), where);
}

}  // namespace ferry
