#include "src/runtime/copy_report.h"

#include <fmt/format.h>

#include <ferry/scope.h>

namespace ferry {
namespace {

std::string_view cause_text(trace::CopyCause cause, trace::PlacementCause placement) {
  if (cause == trace::CopyCause::fetch) return "the program reads the value";
  if (cause == trace::CopyCause::transfer) return "the program asked for it";
  if (cause == trace::CopyCause::swap) return "the memory budget";
  switch (placement) {
    case trace::PlacementCause::default_device:
      return "the op runs on the default device";
    case trace::PlacementCause::guard:
      return "the op runs where a DeviceGuard says";
    case trace::PlacementCause::placement_file:
      return "the op runs where the placement file says";
    case trace::PlacementCause::op_rule:
      return "the op runs where its rule says";
    case trace::PlacementCause::fallback:
      return "the op has no kernel on the chosen device";
    case trace::PlacementCause::inherited:
      return "the op runs where its forward op or parameter is";
  }
  return "";
}

}  // namespace

profiler::TensorMention mention(const TensorImpl& tensor, bool host) {
  return {.id = tensor.number + 1,
          .producer = tensor.producer,
          .number = tensor.number,
          .name = tensor.name.get(),
          .dtype = tensor.dtype,
          .shape = &tensor.shape,
          .host = host};
}

CopyReport::CopyReport(RuntimeCore& core, const TensorImpl& tensor, const CopyReason& reason)
    : core_(core), tensor_(tensor), reason_(reason), recorder_(core.recorder()) {
  if (recorder_ == nullptr) return;
  correlation_ = recorder_->next_correlation();
  begin_ = core.clock().now();
}

void CopyReport::finish(End from, End to, bool synchronous) {
  if (core_.logs_copies()) log(from, to, synchronous);
  if (recorder_ == nullptr) return;
  recorder_->record_copy({.op = reason_.op,
                          .where = reason_.where,
                          .scope = Scope::path(),
                          .tensor = mention(tensor_, false),
                          .size = tensor_.storage->size(),
                          .from = from.device,
                          .to = to.device,
                          .from_memory = from.memory,
                          .to_memory = to.memory,
                          .synchronous = synchronous,
                          .cause = reason_.cause,
                          .placement = reason_.placement,
                          .correlation = correlation_,
                          .begin = begin_,
                          .end = core_.clock().now()});
}

void CopyReport::log(End from, End to, bool synchronous) const {
  const std::string name = tensor_.name ? *tensor_.name : fmt::format("{}_{}", tensor_.producer, tensor_.number);
  fmt::print(stderr,
             "ferry: copy op={} at={}:{} variable={} dtype={} shape={} bytes={} from={} to={} mode={} cause=\"{}\"\n",
             reason_.op, reason_.where.file_name(), reason_.where.line(), name, name_of(tensor_.dtype),
             to_string(tensor_.shape), tensor_.storage->size().count, to_string(from.device), to_string(to.device),
             synchronous ? "synchronous" : "asynchronous", cause_text(reason_.cause, reason_.placement));
}

}  // namespace ferry
