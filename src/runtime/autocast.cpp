#include "src/runtime/autocast.h"

#include <algorithm>
#include <optional>

#include <ferry/no_grad.h>
#include "src/base/check.h"
#include "src/ops/autocast.h"
#include "src/tensor/grad_mode.h"
#include "src/tensor/tensor_impl.h"

namespace ferry {
namespace {

thread_local constinit const AutocastFrame* frame_now = nullptr;

// f64 keeps its precision, as whole numbers do.
bool takes_part(const Tensor& tensor) {
  return tensor.defined() && is_floating(tensor.dtype()) && tensor.dtype() != DType::f64;
}

// The type that all of the call's inputs get; none: each keeps its own.
std::optional<DType> wanted(const AutocastFrame& frame, const ops::OpSchema& schema, ops::TensorPointers inputs) {
  switch (schema.autocast) {
    case ops::AutocastRule::low:
      return frame.dtype;
    case ops::AutocastRule::f32:
      return DType::f32;
    case ops::AutocastRule::widest: {
      if (schema.mutates != 0) return takes_part(*inputs[0]) ? std::optional(inputs[0]->dtype()) : std::nullopt;
      std::optional<DType> widest;
      for (const Tensor* input : inputs) {
        if (!takes_part(*input)) continue;
        // bf16 beside f16: neither holds the other.
        widest = !widest || *widest == input->dtype() ? input->dtype() : DType::f32;
      }
      return widest;
    }
    case ops::AutocastRule::unstated:
    case ops::AutocastRule::as_is:
      break;
  }
  return std::nullopt;
}

bool is_parameter(const Tensor& tensor) {
  return !tensor.impl()->is_view && tensor.requires_grad() && tensor.is_leaf();
}

Tensor cast(const AutocastFrame& frame, const Tensor& tensor, DType dtype, std::source_location where) {
  if (frame.caches_parameters && size_of(dtype) < size_of(tensor.dtype()) && is_parameter(tensor)) {
    return frame.cache->cast(tensor, dtype, where);
  }
  return tensor.to(dtype, where);
}

}  // namespace

Tensor AutocastCache::cast(const Tensor& parameter, DType dtype, std::source_location where) {
  const std::lock_guard lock(mutex_);
  if (grad_mode() == GradMode::watched) ops::note_use(parameter);
  Entry& entry = entries_[{parameter.impl(), dtype}];
  const std::uint32_t version = parameter.impl()->storage->version();
  // A cast made under NoGrad leads nowhere.
  const bool fits =
      entry.cast.defined() && entry.version == version && (grad_mode() == GradMode::off || entry.cast.requires_grad());
  if (fits) return entry.cast;
  // A region that is computed again finds the same cast, and its place in the graph.
  const GradModeScope mode(grad_mode() == GradMode::off ? GradMode::off : GradMode::on);
  entry = {parameter, parameter.to(dtype, where), version};
  if (entry.cast.requires_grad()) ops::share_among_backwards(entry.cast);
  return entry.cast;
}

const AutocastFrame* autocast_frame() { return frame_now; }

RestoredAutocast::RestoredAutocast(std::shared_ptr<const AutocastFrame> frame)
    : frame_(std::move(frame)), outer_(std::exchange(frame_now, frame_.get())) {}
RestoredAutocast::~RestoredAutocast() { frame_now = outer_; }

CastInputs::CastInputs(const AutocastFrame& frame, const ops::OpSchema& schema, ops::TensorPointers inputs,
                       std::source_location where)
    : inputs_(inputs) {
  const std::optional<DType> dtype = wanted(frame, schema, inputs);
  if (!dtype) return;
  const auto changes = [&](const Tensor* input) { return takes_part(*input) && input->dtype() != *dtype; };
  if (std::ranges::none_of(inputs, changes)) return;
  casts_.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    const bool changed = changes(input);
    if (changed) casts_.push_back(cast(frame, *input, *dtype, where));
    pointers_.push_back(changed ? &casts_.back() : input);
  }
}

Autocast::Autocast(AutocastOptions options) : outer_(frame_now) {
  FERRY_CHECK(options.dtype == DType::bf16 || options.dtype == DType::f16, InvalidArgument,
              "Autocast: dtype {} is not bf16 or f16", name_of(options.dtype));
  auto frame = std::make_shared<AutocastFrame>();
  frame->enabled = options.enabled;
  frame->dtype = options.dtype;
  frame->caches_parameters = options.caches_parameters;
  frame->cache = outer_ != nullptr ? outer_->cache : std::make_shared<AutocastCache>();
  frame_ = std::move(frame);
  frame_now = frame_.get();
}

Autocast::~Autocast() { frame_now = outer_; }

bool autocast_enabled() { return frame_now != nullptr && frame_now->enabled; }

}  // namespace ferry
