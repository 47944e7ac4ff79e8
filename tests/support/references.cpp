#include "tests/support/references.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ferry::test {

Array Array::filled(const Shape& shape, double value) {
  return {shape, std::vector<double>(static_cast<std::size_t>(shape.product()), value)};
}

std::size_t Array::position(const Dims& index) const {
  std::int64_t at = 0;
  for (int i = 0; i < shape.rank(); ++i) at = at * shape[i] + index[i];
  return static_cast<std::size_t>(at);
}

void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& visit) {
  if (shape.product() == 0) return;
  Dims index = Dims::filled(shape.rank(), 0);
  for (;;) {
    visit(index);
    int axis = shape.rank() - 1;
    while (axis >= 0 && ++index[axis] == shape[axis]) index[axis--] = 0;
    if (axis < 0) return;
  }
}

Array map(const Array& x, const std::function<double(double)>& f) {
  Array y = x;
  std::ranges::transform(x.values, y.values.begin(), f);
  return y;
}

Array map(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  const Array& longer = a.shape.rank() >= b.shape.rank() ? a : b;
  const Array& shorter = &longer == &a ? b : a;
  Shape shape = longer.shape;
  const int lead = shape.rank() - shorter.shape.rank();
  for (int i = lead; i < shape.rank(); ++i) {
    if (shape[i] == 1) shape[i] = shorter.shape[i - lead];
  }
  const Array left = expanded(a, shape), right = expanded(b, shape);
  Array y = left;
  for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = f(left.values[i], right.values[i]);
  return y;
}

Array expanded(const Array& x, const Shape& shape) {
  Array y = Array::filled(shape, 0);
  const int lead = shape.rank() - x.shape.rank();
  for_each_index(shape, [&](const Dims& index) {
    Dims from = Dims::filled(x.shape.rank(), 0);
    for (int i = 0; i < from.rank(); ++i) from[i] = x.shape[i] == 1 ? 0 : index[lead + i];
    y.at(index) = x.at(from);
  });
  return y;
}

Array reshaped(const Array& x, const Shape& shape) { return {shape, x.values}; }

Array permuted(const Array& x, const std::vector<int>& axes) {
  Shape shape;
  for (const int axis : axes) shape.push_back(x.shape[axis]);
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& index) {
    Dims from = index;
    for (int i = 0; i < index.rank(); ++i) from[axes[static_cast<std::size_t>(i)]] = index[i];
    y.at(index) = x.at(from);
  });
  return y;
}

Array sliced(const Array& x, const Dims& starts, const Dims& steps, const Shape& shape) {
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& index) {
    Dims from = index;
    for (int i = 0; i < index.rank(); ++i) from[i] = starts[i] + index[i] * steps[i];
    y.at(index) = x.at(from);
  });
  return y;
}

Array concatenated(const std::vector<Array>& xs, int axis) {
  Shape shape = xs[0].shape;
  shape[axis] = 0;
  for (const Array& x : xs) shape[axis] += x.shape[axis];
  Array y = Array::filled(shape, 0);
  std::int64_t offset = 0;
  for (const Array& x : xs) {
    for_each_index(x.shape, [&](const Dims& index) {
      Dims to = index;
      to[axis] += offset;
      y.at(to) = x.at(index);
    });
    offset += x.shape[axis];
  }
  return y;
}

Array reduced(const Array& x, std::vector<int> axes, bool keepdim, Reducer reducer) {
  const int rank = x.shape.rank();
  std::vector<bool> drop(static_cast<std::size_t>(rank), axes.empty());
  for (const int axis : axes) drop[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = true;
  Shape kept = x.shape, result;
  double count = 1;
  for (int i = 0; i < rank; ++i) {
    const bool gone = drop[static_cast<std::size_t>(i)];
    if (gone) {
      count *= static_cast<double>(x.shape[i]);
      kept[i] = 1;
    }
    if (!gone || keepdim) result.push_back(kept[i]);
  }
  Array y = Array::filled(kept, reducer == Reducer::max ? -std::numeric_limits<double>::infinity() : 0);
  for_each_index(x.shape, [&](const Dims& index) {
    Dims to = index;
    for (int i = 0; i < rank; ++i) {
      if (drop[static_cast<std::size_t>(i)]) to[i] = 0;
    }
    double& value = y.at(to);
    value = reducer == Reducer::max ? std::max(value, x.at(index)) : value + x.at(index);
  });
  if (reducer == Reducer::mean) y = map(y, [count](double total) { return total / count; });
  return reshaped(y, result);
}

Array argmax(const Array& x, int axis) {
  Shape shape;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i != axis) shape.push_back(x.shape[i]);
  }
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& index) {
    Dims from;
    for (int i = 0; i < x.shape.rank(); ++i) from.push_back(i == axis ? 0 : index[i < axis ? i : i - 1]);
    double best = x.at(from);
    for (std::int64_t i = 1; i < x.shape[axis]; ++i) {
      from[axis] = i;
      if (x.at(from) > best) {
        best = x.at(from);
        y.at(index) = static_cast<double>(i);
      }
    }
  });
  return y;
}

Array matmul(const Array& a, const Array& b) {
  const int ra = a.shape.rank(), rb = b.shape.rank(), rank = std::max(ra, rb);
  const std::int64_t inner = a.shape.back();
  Shape shape = Dims::filled(rank, 1);
  const auto extent = [rank](const Array& x, int i) {
    const int at = i - (rank - x.shape.rank());
    return at < 0 ? std::int64_t{1} : x.shape[at];
  };
  for (int i = 0; i < rank - 2; ++i) shape[i] = extent(a, i) == 1 ? extent(b, i) : extent(a, i);
  shape[rank - 2] = a.shape[ra - 2];
  shape[rank - 1] = b.shape[rb - 1];
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& index) {
    Dims ia = Dims::filled(ra, 0), ib = Dims::filled(rb, 0);
    for (int i = 0; i < ra - 2; ++i) ia[i] = a.shape[i] == 1 ? 0 : index[rank - ra + i];
    for (int i = 0; i < rb - 2; ++i) ib[i] = b.shape[i] == 1 ? 0 : index[rank - rb + i];
    ia[ra - 2] = index[rank - 2];
    ib[rb - 1] = index[rank - 1];
    for (std::int64_t k = 0; k < inner; ++k) {
      ia[ra - 1] = ib[rb - 2] = k;
      y.at(index) += a.at(ia) * b.at(ib);
    }
  });
  return y;
}

Array linear(const Array& x, const Array& weight, const Array* bias) {
  Array rows = x;
  if (x.shape.rank() == 1) rows.shape = {1, x.shape[0]};
  Array y = matmul(rows, permuted(weight, {1, 0}));
  if (x.shape.rank() == 1) y.shape = {y.shape.back()};
  return bias == nullptr ? y : map(y, *bias, [](double a, double b) { return a + b; });
}

}  // namespace ferry::test
