// References of indexing and padding.
#include "tests/support/references.h"

namespace ferry::test {
namespace {

// Where element `at` of a padded axis comes from; -1: the padding value.
std::int64_t padded_source(std::int64_t at, std::int64_t begin, std::int64_t extent, PadMode mode) {
  const std::int64_t inside = at - begin;
  if (inside >= 0 && inside < extent) return inside;
  if (mode == PadMode::constant) return -1;
  if (mode == PadMode::replicate) return inside < 0 ? 0 : extent - 1;
  return inside < 0 ? -inside : 2 * (extent - 1) - inside;
}

}  // namespace

Array gathered(const Array& x, int axis, const Array& index) {
  Array y = Array::filled(index.shape, 0);
  for_each_index(index.shape, [&](const Dims& at) {
    Dims from = at;
    from[axis] = static_cast<std::int64_t>(index.at(at));
    y.at(at) = x.at(from);
  });
  return y;
}

Array index_selected(const Array& x, int axis, const Array& indices) {
  Shape shape = x.shape;
  shape[axis] = indices.shape[0];
  Array y = Array::filled(shape, 0);
  for_each_index(shape, [&](const Dims& at) {
    Dims from = at;
    from[axis] = static_cast<std::int64_t>(indices.at({at[axis]}));
    y.at(at) = x.at(from);
  });
  return y;
}

Array padded(const Array& x, const Dims& begins, const Dims& ends, PadMode mode, double value) {
  Shape shape = x.shape;
  for (int i = 0; i < shape.rank(); ++i) shape[i] += begins[i] + ends[i];
  Array y = Array::filled(shape, value);
  for_each_index(shape, [&](const Dims& at) {
    Dims from = at;
    bool inside = true;
    for (int i = 0; i < shape.rank(); ++i) {
      from[i] = padded_source(at[i], begins[i], x.shape[i], mode);
      inside = inside && from[i] >= 0;
    }
    if (inside) y.at(at) = x.at(from);
  });
  return y;
}

}  // namespace ferry::test
