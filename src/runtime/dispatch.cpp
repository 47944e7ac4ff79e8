// Op calls enter here.
#include <ferry/scope.h>
#include "src/base/check.h"
#include "src/ops/invoke.h"
#include "src/runtime/autocast.h"
#include "src/runtime/budget.h"
#include "src/runtime/call.h"
#include "src/runtime/phase.h"
#include "src/tensor/grad_mode.h"
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

// What an op that updates kept state gives without running: its mutated inputs.
void pass_through(const ops::OpSchema& schema, ops::TensorPointers inputs, std::span<Tensor> outputs) {
  std::size_t output = 0;
  for (std::size_t i = 0; i < inputs.size() && output < outputs.size(); ++i) {
    if (ops::has(schema.mutates, schema.place(i))) outputs[output++] = *inputs[i];
  }
}

}  // namespace

namespace ops {

namespace {

void run(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
         std::span<Tensor> outputs) {
  try {
    if (schema.mutates != 0 && grad_mode() != GradMode::off) check_in_place(schema, inputs);
    Call(core_of(schema, inputs), schema, inputs, attributes, where, outputs).run();
  } catch (Error& error) {
    error.locate(schema.name, where);
    throw;
  }
}

}  // namespace

bool may_write_over(const Tensor& x) {
  if (x.shared_impl().use_count() != 1 || x.impl()->storage.use_count() != 1) return false;
  const Budget* budget = static_cast<const RuntimeCore&>(*x.impl()->storage->owner()).budget();
  return budget == nullptr || budget->options().methods != EvictionMethods::recompute;
}

void invoke(const OpSchema& schema, TensorPointers inputs, const Attributes& attributes, Where where,
            std::span<Tensor> outputs) {
  if (schema.updates_state && current_phase() == trace::Phase::recompute) {
    return pass_through(schema, inputs, outputs);
  }
  where = user_line(where);
  const AutocastFrame* autocast = autocast_frame();
  if (autocast != nullptr && autocast->enabled) [[unlikely]] {
    const CastInputs cast(*autocast, schema, inputs, where);
    return run(schema, cast.get(), attributes, where, outputs);
  }
  run(schema, inputs, attributes, where, outputs);
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
  if (grad_mode() != GradMode::off) {
    const Tensor* inputs[] = {&x};
    record_in_graph(schema, inputs, attributes, user_line(where), {&view, 1});
  }
  return view;
}

}  // namespace ops
}  // namespace ferry
