#include <fmt/format.h>

#include <unordered_map>

#include "profiler/format.h"
#include "profiler/rules/fixes.h"
#include "profiler/rules/grouping.h"

namespace ferry::profiler::rules {
namespace {

// The op that the program called, or the function around it: two copies of one tensor have it in common.
bool share_a_call(const TraceIndex& index, const Transfer& out, const Transfer& back) {
  const EventIndex first = index.op_of(out.call), second = index.op_of(back.call);
  if (first >= 0 && first == second) return true;
  const std::string_view frame = index.frame_of(out.call);
  if (!frame.empty()) return frame == index.frame_of(back.call);
  const EventIndex outer = first < 0 ? -1 : index.parent(first);
  return outer >= 0 && second >= 0 && outer == index.parent(second);
}

bool is_same_data(const Transfer& out, const Transfer& back) {
  if (out.size != back.size || out.size == Bytes{}) return false;
  // Where the trace has addresses, they decide.
  return out.destination == 0 || back.source == 0 || out.destination == back.source;
}

void find(const TraceIndex& index, std::vector<Finding>& findings) {
  Grouping grouping(index, kPingPong.name);
  std::unordered_map<analysis::TrackIndex, const Transfer*> last_out;  // by thread
  for (const Transfer& transfer : index.transfers()) {
    if (transfer.call < 0 || !transfer.crosses()) continue;
    const Transfer*& out = last_out[index.event(transfer.call).track];
    if (transfer.direction == Direction::device_to_host) {
      out = &transfer;
      continue;
    }
    if (out != nullptr && is_same_data(*out, transfer) && share_a_call(index, *out, transfer)) {
      Finding& finding = grouping.add(transfer);
      finding.blocked += out->blocked;
      finding.drain += out->drain;
      finding.copying += out->copying();
    }
    out = nullptr;
  }
  for (Finding& finding : grouping.take()) {
    finding.text =
        fmt::format("{}: {} went to the host and came back within one call of the program",
                    counted(finding.calls, "time", "times"), to_string(Bytes{finding.size.count / finding.calls}));
    finding.fix = fix_text(index.activity().framework, Fix::stay_on_gpu);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

const Rule kPingPong{"ping_pong", "a tensor goes to the host and back within one call of the program", false, find};

}  // namespace ferry::profiler::rules
