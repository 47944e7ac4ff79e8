#include <algorithm>

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/kernel_list.h"
#include "src/backends/cpu/strided.h"
#include "src/kernels/convert.h"
#include "src/ops/attributes.h"

namespace ferry::cpu_backend {

void fill(const KernelContext& context) {
  const TensorView& y = context.out();
  const double value = context.attributes.as<ops::FillAttributes>().value;
  const auto walk = make_walk<1>({&y});
  const std::int64_t stride = walk.inner_strides()[0];
  visit_all(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T element = kernels::convert<T>(value);
    parallel_walk(walk, [&](std::int64_t n, const std::array<std::byte*, 1>& at) {
      auto* const row = reinterpret_cast<T*>(at[0]);
      const std::int64_t step = stride / std::int64_t{sizeof(T)};
      if (step == 1) {
        std::fill_n(row, n, element);
      } else {
        for (std::int64_t i = 0; i < n; ++i) row[i * step] = element;
      }
    });
  });
}

void arange(const KernelContext& context) {
  const TensorView& y = context.out();
  const auto& attributes = context.attributes.as<ops::ArangeAttributes>();
  visit_all(context, y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(y.numel(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        y.as<T>()[i] = kernels::convert<T>(attributes.start + static_cast<double>(i) * attributes.step);
      }
    });
  });
}

}  // namespace ferry::cpu_backend
