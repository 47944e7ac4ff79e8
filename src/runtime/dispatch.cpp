// Op calls enter here.
#include <ferry/no_grad.h>
#include <ferry/scope.h>
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/runtime/call.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

// The runtime of the inputs; the thread's for an op without any. Throws: InvalidArgument when they are of two.
RuntimeCore& core_of(const ops::OpSchema& schema, ops::TensorPointers inputs) {
  StorageOwner* owner = nullptr;
  for (const Tensor* input : inputs) {
    if (!input->defined()) continue;
    StorageOwner* other = input->impl()->storage->owner().get();
    FERRY_CHECK(owner == nullptr || owner == other, InvalidArgument,
                "{}: '{}' belongs to another Runtime than the inputs before it; move its values with to_vector and "
                "from_vector",
                schema.name, input->name());
    owner = other;
  }
  return owner == nullptr ? *current_core() : static_cast<RuntimeCore&>(*owner);
}

// Inside modules an op shows the line of the outermost module call.
std::source_location user_line(std::source_location where) {
  const std::source_location* module_call = Scope::module_call();
  return module_call == nullptr ? where : *module_call;
}

}  // namespace

namespace ops {

void invoke(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
            std::span<Tensor> outputs) {
  where = user_line(where);
  try {
    if (schema.mutates != 0 && grad_enabled()) check_in_place(schema, inputs);
    Call(core_of(schema, inputs), schema, inputs, attributes, where, outputs).run();
  } catch (Error& error) {
    error.locate(schema.name, where);
    throw;
  }
}

void require_defined(std::string_view op, const Tensor& x) {
  FERRY_CHECK(x.defined(), InvalidArgument, "{}: argument 'x' is an undefined tensor", op);
}

void rethrow_located(std::string_view op, Where where) {
  try {
    throw;
  } catch (Error& error) {
    error.locate(op, user_line(where));
    throw;
  }
}

Tensor invoke_view(const OpSchema& schema, const Tensor& x, const Attributes& attributes, const Shape& shape,
                   const Strides& strides, std::int64_t offset, Where where) {
  Tensor view(make_view(*x.impl(), shape, strides, offset));
  if (grad_enabled()) {
    const Tensor* inputs[] = {&x};
    record_in_graph(schema, inputs, attributes, user_line(where), {&view, 1});
  }
  return view;
}

}  // namespace ops
}  // namespace ferry
