#include "src/backends/cpu/channel_vectors.h"

#include "src/backends/cpu/dispatch.h"
#include "src/backends/cpu/float_views.h"
#include "src/kernels/convert.h"
#include "src/kernels/functor.h"

namespace ferry::cpu_backend {

Vector read_vector(const KernelContext& context, const TensorView& view, std::int64_t channels, double fallback) {
  Vector values(static_cast<std::size_t>(channels), fallback);
  if (!view.given) return values;
  visit_floats(context, view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t c = 0; c < channels; ++c) {
      values[static_cast<std::size_t>(c)] = static_cast<double>(kernels::load(view.as<const T>()[c * view.strides[0]]));
    }
  });
  return values;
}

void write_vector(const KernelContext& context, const Vector& values, const TensorView& view) {
  if (!view.given) return;
  visit_floats(context, view.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t c = 0; c < values.size(); ++c) {
      view.as<T>()[static_cast<std::int64_t>(c) * view.strides[0]] = kernels::convert<T>(values[c]);
    }
  });
}

TensorView optional_view(std::span<const TensorView> views, std::size_t i) {
  return i < views.size() ? views[i] : TensorView{};
}

bool done_in_f32(const KernelContext& context, Kernel self) {
  const DType dtype = context.out().dtype;
  if (dtype != DType::f16 && dtype != DType::bf16) return false;
  run_in_f32(context, self);
  return true;
}

}  // namespace ferry::cpu_backend
