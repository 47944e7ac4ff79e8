// How op files run an op. Declared here, below; implemented above: invoke by the runtime (src/runtime/dispatch.cpp),
// record_in_graph by autograd (src/autograd/record.cpp).
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string_view>

#include "src/ops/op_schema.h"

namespace ferry {
class RuntimeCore;
}

namespace ferry::ops {

using Where = std::source_location;

// Runs an op: place → bring inputs → allocate outputs → launch → record. `outputs` has one place for each output that
// infer states; an output not given stays undefined.
void invoke(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
            std::span<Tensor> outputs);

// An op of one output.
inline Tensor invoke(const OpSchema& schema, std::initializer_list<const Tensor*> inputs, const Attributes& attributes,
                     Where where) {
  Tensor output;
  invoke(schema, {inputs.begin(), inputs.size()}, attributes, where, {&output, 1});
  return output;
}

// An op that only looks at x's storage in another way: no kernel, no copy.
Tensor invoke_view(const OpSchema& schema, const Tensor& x, const Attributes& attributes, const Shape& shape,
                   const Strides& strides, std::int64_t offset, Where where);

// x's elements in new memory on another device; x itself when it lives there.
Tensor invoke_transfer(const OpSchema& schema, const Tensor& x, Device target, Where where);

// The thread's runtime is x's in this scope, so that ops without inputs make tensors that go with x: it may not be the
// current one, or have ended. Requires: x is defined.
class [[nodiscard]] RuntimeOf {
 public:
  explicit RuntimeOf(const Tensor& x);
  ~RuntimeOf();
  RuntimeOf(const RuntimeOf&) = delete;
  RuntimeOf& operator=(const RuntimeOf&) = delete;

 private:
  std::shared_ptr<RuntimeCore> previous_;
};

// Throws: InvalidArgument.
void require_defined(std::string_view op, const Tensor& x);

// Rethrows the ferry::Error being handled, with op and source line.
[[noreturn]] void rethrow_located(std::string_view op, Where where);

// Runs `body`, which checks what a caller passed before an op is invoked: its errors name op and source line.
template <class F>
auto located(std::string_view op, Where where, F&& body) {
  try {
    return body();
  } catch (const Error&) {
    rethrow_located(op, where);
  }
}

// The same for a body that needs x. Throws: InvalidArgument for an undefined x.
template <class F>
auto located(std::string_view op, const Tensor& x, Where where, F&& body) {
  return located(op, where, [&] {
    require_defined(op, x);
    return body();
  });
}

// Nobody else sees x's memory, and nobody will want what lies there again: an op may take it for its result. Under a
// memory budget that only recomputes it may not: what is written over cannot be computed any more, nor what came of it.
bool may_write_over(const Tensor& x);

// Adds the call to the graph when an input requires grad and grad is enabled.
void record_in_graph(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
                     std::span<Tensor> outputs);
// Throws unless a write to the first input may go on while grad is enabled: not on a leaf that requires grad, nor into
// a view when it or what is written requires grad, for the view's base would not know.
void check_in_place(const OpSchema& schema, TensorPointers inputs);

}  // namespace ferry::ops
