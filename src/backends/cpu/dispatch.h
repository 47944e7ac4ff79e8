// From a dtype known when a kernel runs to a type known when it is compiled.
#pragma once

#include <utility>

#include "src/base/check.h"
#include "src/device/kernel.h"

namespace ferry::cpu_backend {

// Names a type in a call: visit(dtype, …, [](auto tag) { using T = typename decltype(tag)::type; … }).
template <class T>
struct TypeTag {
  using type = T;
};

// Calls body(TypeTag<T>) for the T of Ts that `dtype` is. Throws: InvalidArgument for another dtype.
template <class... Ts, class Body>
void visit_types(const KernelContext& context, DType dtype, const Body& body) {
  const bool found = ((dtype_of<Ts> == dtype && (body(TypeTag<Ts>{}), true)) || ...);
  FERRY_CHECK(found, InvalidArgument, "{}: no host kernel for {}", context.op, name_of(dtype));
}

template <class Body>
void visit_all(const KernelContext& context, DType dtype, const Body& body) {
  visit_types<float, double, float16, bfloat16, std::int32_t, std::int64_t, std::uint8_t, bool>(context, dtype, body);
}

template <class Body>
void visit_floats(const KernelContext& context, DType dtype, const Body& body) {
  visit_types<float, double, float16, bfloat16>(context, dtype, body);
}

template <class Body>
void visit_indices(const KernelContext& context, DType dtype, const Body& body) {
  visit_types<std::int64_t, std::int32_t>(context, dtype, body);
}

}  // namespace ferry::cpu_backend
