#include <fmt/format.h>

#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/rule.h"

namespace ferry::profiler::rules {
namespace {

constexpr double kBusyEnough = 0.5;

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  for (const analysis::GpuUse& gpu : index.gpus()) {
    if (index.span() <= Nanoseconds(0)) continue;
    const double share = static_cast<double>(gpu.total.count()) / static_cast<double>(index.span().count());
    if (share >= kBusyEnough) continue;
    Finding finding;
    finding.rule = kLowUtilisation.name;
    finding.calls = 1;
    finding.blocked = index.span() - gpu.total;
    finding.text = fmt::format("gpu:{} worked {:.1f}% of the time, with {} of {} on average", gpu.device, 100 * share,
                               counted(gpu.kernels, "kernel", "kernels"),
                               to_string(gpu.kernels > 0 ? gpu.total / gpu.kernels : Nanoseconds(0)));
    finding.fix = fix_text(index.activity().framework, Fix::launch_ahead);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kLowUtilisation{"low_utilisation", "a GPU works less than half of the time", false, find};

}  // namespace ferry::profiler::rules
