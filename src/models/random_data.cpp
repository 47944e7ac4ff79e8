#include "src/models/random_data.h"

#include <cmath>
#include <type_traits>

#include "src/base/check.h"
#include "src/runtime/runtime_core.h"

namespace ferry::models {
namespace {

// A host tensor of draw() for each element.
template <class T, class F>
Tensor filled(const Shape& shape, F&& draw) {
  if (!current_core()->options().values) return from_host(nullptr, dtype_of<T>, shape);
  std::vector<T> values(static_cast<std::size_t>(shape.product()));
  for (T& value : values) value = static_cast<T>(draw());
  return from_vector(values, shape);
}

}  // namespace

Tensor RandomData::noise(const Shape& shape, DType dtype) {
  const float range = std::sqrt(3.0F) * 0x1p-23F;
  const auto draw = [&] { return static_cast<float>(static_cast<std::int64_t>(engine_() >> 40) - (1 << 23)) * range; };
  switch (dtype) {
    case DType::f64:
      return filled<double>(shape, draw);
    case DType::f16:
      return filled<float16>(shape, draw);
    case DType::bf16:
      return filled<bfloat16>(shape, draw);
    default:
      return filled<float>(shape, draw);
  }
}

std::int64_t RandomData::below(std::int64_t bound) {
  return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(bound));
}

Tensor RandomData::ids(const Shape& shape, std::int64_t bound) {
  return filled<std::int64_t>(shape, [&] { return below(bound); });
}

void require_samples(std::int64_t size) {
  FERRY_CHECK(size > 0, InvalidArgument, "random_batch: {} samples; it needs at least one", size);
}

}  // namespace ferry::models
