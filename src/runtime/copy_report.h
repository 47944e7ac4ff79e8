// Tells the recorder and the log about one copy.
#pragma once

#include <optional>

#include "src/runtime/residency.h"

namespace ferry {

class CopyReport {
 public:
  // The copy's host interval begins now.
  CopyReport(RuntimeCore& core, const TensorImpl& tensor, const CopyReason& reason);

  // For the driver's request.
  std::uint64_t correlation() const { return correlation_; }
  std::string_view label() const { return reason_.op; }

  struct End {
    Device device;
    trace::Memory memory;
  };
  // The copy was enqueued, and waited for where `synchronous` or the reason say so.
  void finish(End from, End to, bool synchronous);

 private:
  void log(End from, End to, bool synchronous) const;

  RuntimeCore& core_;
  const TensorImpl& tensor_;
  const CopyReason& reason_;
  profiler::Recorder* recorder_;
  std::uint64_t correlation_ = 0;
  Nanoseconds begin_{};
};

// How the recorder is told of a tensor.
profiler::TensorMention mention(const TensorImpl& tensor, bool host);

}  // namespace ferry
