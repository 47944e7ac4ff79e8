#include <fmt/format.h>

#include <set>

#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

constexpr Bytes kSmall{4096};
constexpr std::int64_t kOftenWithoutSteps = 8;

// Whether the copies of a place come in every step, or often where no steps are marked.
bool is_regular(const TraceIndex& index, const std::set<std::size_t>& steps, std::int64_t calls) {
  const std::size_t marked = index.steps().size();
  return marked >= 2 ? steps.size() == marked : calls >= kOftenWithoutSteps;
}

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kSmallHostTensor.name);
  std::map<std::pair<std::string, std::string>, std::set<std::size_t>> steps_of;  // by op and frame
  for (const Transfer& transfer : index.transfers()) {
    if (transfer.direction != Direction::host_to_device || !transfer.is_synchronous() || transfer.size > kSmall)
      continue;
    const Finding& finding = grouping.add(transfer);
    for (std::size_t i = 0; i < index.steps().size(); ++i) {
      if (index.steps()[i].time.contains(transfer.begin)) steps_of[{finding.op, finding.frame}].insert(i);
    }
  }
  for (Finding& finding : grouping.take()) {
    if (!is_regular(index, steps_of[{finding.op, finding.frame}], finding.calls)) continue;
    finding.text = fmt::format("{} of {} on average", counted(finding.calls, "copy", "copies"),
                               to_string(Bytes{finding.size.count / finding.calls}));
    finding.fix = fix_text(index.activity().framework, Fix::make_on_gpu);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kSmallHostTensor{"small_host_tensor", "a small tensor is made on the host and copied in every step", false,
                            find};

}  // namespace ferry::profiler::rules
