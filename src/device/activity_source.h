// An optional side of a driver: work as the vendor's tracing library saw it. A driver that has such a library derives
// from this beside Driver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ferry/units.h>
#include "src/trace/trace.h"

namespace ferry {

// Copies between the same kinds of memory.
struct CopyKinds {
  trace::Memory from = trace::Memory::device, to = trace::Memory::device;
  std::int64_t calls = 0;
  Bytes size{};
  Nanoseconds time{};  // on the device
};

// The copies between devices and the host, or two devices, while work was observed.
struct CopyActivity {
  std::string library{};           // "CUPTI"
  std::vector<CopyKinds> kinds{};  // of copies that have a correlation
  std::int64_t others = 0;         // copies that nobody gave a correlation
};

// Thread-safety: as Driver.
class ActivitySource {
 public:
  virtual ~ActivitySource() = default;
  // From the next set_work_observer() on: whether the library gives the times of work, where it can be used, in place
  // of what the driver has of its own.
  virtual void use_activities(bool on) = 0;
  // Of the observer that was set last, complete after flush_work_records(). None: the library was not used.
  virtual std::optional<CopyActivity> copy_activity() = 0;
};

}  // namespace ferry
