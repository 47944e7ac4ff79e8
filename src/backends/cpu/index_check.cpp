#include "src/backends/cpu/index_check.h"

#include "src/base/check.h"

namespace ferry::cpu_backend {
namespace {

// Without an early exit, so that the loop vectorises; the position is looked for only when there is one.
template <class Index>
bool all_legal(const Index* indices, const IndexCheck& check) {
  const std::int64_t count = check.view.numel(), lowest = check.lowest, bound = check.bound;
  bool good = true;
  if (check.except) {
    const std::int64_t except = *check.except;
    for (std::int64_t i = 0; i < count; ++i) {
      good &= (indices[i] >= lowest && indices[i] < bound) || indices[i] == except;
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) good &= indices[i] >= lowest && indices[i] < bound;
  }
  return good;
}

bool is_legal(const IndexCheck& check, std::int64_t index) {
  return (index >= check.lowest && index < check.bound) || index == check.except;
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
