#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kPageableAsyncCopy.name);
  for (const Transfer& transfer : index.transfers()) {
    if (kind_of(index, transfer) == CopyKind::pageable_async_copy) grouping.add(transfer);
  }
  for (Finding& finding : grouping.take()) {
    finding.fix = fix_text(index.activity().framework, Fix::pin_async_source);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kPageableAsyncCopy{"pageable_async_copy", "an asynchronous copy from or to pageable memory, which is none",
                              true, find};

}  // namespace ferry::profiler::rules
