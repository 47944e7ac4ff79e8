#include "src/backends/cpu/index_check.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

bool is_legal(const IndexCheck& check, std::int64_t index) {
  return (index >= check.lowest && index < check.bound) || index == check.except;
}

// Without an early exit, so that the loop vectorises; the position is looked for only when there is one. An index is
// out of range where its distance to one of the ends is negative: a subtraction, which every CPU has for vectors, as it
// has not comparisons of 64 bits. Where a distance wraps, the one to the other end does not.
template <class Index>
bool all_between(const Index* indices, std::int64_t count, Index lowest, Index highest) {
  using Bits = std::make_unsigned_t<Index>;
  Bits distances = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<Bits>(indices[i]);
    distances |= (index - static_cast<Bits>(lowest)) | (static_cast<Bits>(highest) - index);
  }
  return static_cast<Index>(distances) >= 0;
}

template <class Index>
bool all_legal(const Index* indices, const IndexCheck& check) {
  constexpr std::int64_t kFar = std::numeric_limits<Index>::max() / 2;
  const std::int64_t count = check.view.numel(), highest = check.bound - 1;
  if (!check.except && -kFar < check.lowest && check.lowest <= highest && highest < kFar) {
    return all_between(indices, count, static_cast<Index>(check.lowest), static_cast<Index>(highest));
  }
  return std::all_of(indices, indices + count, [&](Index index) { return is_legal(check, index); });
}

[[noreturn]] void throw_first(const KernelContext& context, const IndexCheck& check) {
  std::int64_t i = 0;
  while (is_legal(check, index_at(check.view, i))) ++i;
  std::string legal = check.bound > check.lowest ? fmt::format("which takes {} to {}", check.lowest, check.bound - 1)
                                                 : std::string("which takes none");
  if (check.except) legal += fmt::format(" or {}", *check.except);
  throw InvalidArgument(fmt::format("{}: {}[{}] = {} is out of range for {} {}, {}", context.op, check.name, i,
                                    index_at(check.view, i), check.into, to_string(check.shape), legal));
}

}  // namespace

void check_indices(const KernelContext& context, const IndexCheck& check) {
  const bool good = check.view.dtype == DType::i64 ? all_legal(check.view.as<std::int64_t>(), check)
                                                   : all_legal(check.view.as<std::int32_t>(), check);
  if (!good) throw_first(context, check);
}

}  // namespace ferry::cpu_backend
