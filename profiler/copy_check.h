// The copies that a trace has beside those that a vendor's tracing library saw.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/device/activity_source.h"
#include "src/trace/trace.h"

namespace ferry::profiler {

struct CopyCheck {
  std::string library{};           // "CUPTI"; "": there was none
  std::int64_t recorded = 0;       // copies of the trace, between devices and the host or two devices
  std::int64_t seen = 0;           // those of them that the library saw
  std::int64_t others = 0;         // what it saw besides
  std::vector<CopyKinds> kinds{};  // of what it saw of the trace's copies: a large one may be made in several

  bool holds() const { return seen == recorded && others == 0; }
};

CopyCheck check_copies(const trace::Trace& trace, std::span<const CopyActivity> activities);

std::string_view memory_text(trace::Memory memory);
// "CUPTI saw all 12 recorded copies: 8 pageable->device of 32 MiB, …", or what does not agree.
std::string copy_check_text(const CopyCheck& check);

}  // namespace ferry::profiler
