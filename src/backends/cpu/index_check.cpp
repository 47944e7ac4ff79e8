#include "src/backends/cpu/index_check.h"

#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

// Without an early exit, so that the loop vectorises; the position is looked for only when there is one.
template <class Index>
bool all_in_range(const Index* indices, std::int64_t count, std::int64_t lowest, std::int64_t bound) {
  bool good = true;
  for (std::int64_t i = 0; i < count; ++i) good &= indices[i] >= lowest && indices[i] < bound;
  return good;
}

[[noreturn]] void throw_first(const KernelContext& context, const IndexCheck& check) {
  std::int64_t i = 0;
  while (index_at(check.view, i) >= check.lowest && index_at(check.view, i) < check.bound) ++i;
  const std::string legal = check.bound > check.lowest
                                ? fmt::format("which takes {} to {}", check.lowest, check.bound - 1)
                                : std::string("which takes none");
  throw InvalidArgument(fmt::format("{}: {}[{}] = {} is out of range for {} {}, {}", context.op, check.name, i,
                                    index_at(check.view, i), check.into, to_string(check.shape), legal));
}

}  // namespace

void check_indices(const KernelContext& context, const IndexCheck& check) {
  const std::int64_t count = check.view.numel();
  const bool good = check.view.dtype == DType::i64
                        ? all_in_range(check.view.as<std::int64_t>(), count, check.lowest, check.bound)
                        : all_in_range(check.view.as<std::int32_t>(), count, check.lowest, check.bound);
  if (!good) throw_first(context, check);
}

}  // namespace ferry::cpu_backend
