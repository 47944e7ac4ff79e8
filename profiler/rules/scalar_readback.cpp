#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kScalarReadback.name);
  for (const Transfer& transfer : index.transfers()) {
    if (kind_of(index, transfer) == CopyKind::scalar_readback) grouping.add(transfer);
  }
  for (Finding& finding : grouping.take()) {
    finding.fix = fix_text(index.activity().framework, Fix::keep_on_gpu);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kScalarReadback{"scalar_readback", "the program reads a value of the GPU to go on with it", true, find};

}  // namespace ferry::profiler::rules
