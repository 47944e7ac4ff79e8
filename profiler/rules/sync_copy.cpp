#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kSyncCopy.name);
  for (const Transfer& transfer : index.transfers()) {
    if (kind_of(index, transfer) == CopyKind::sync_copy) grouping.add(transfer);
  }
  for (Finding& finding : grouping.take()) {
    const bool to_device = finding.direction == Direction::host_to_device;
    finding.fix = fix_text(index.activity().framework, to_device ? Fix::pin_source : Fix::read_later);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kSyncCopy{"sync_copy", "a copy between host and device for which the host waits", true, find};

}  // namespace ferry::profiler::rules
