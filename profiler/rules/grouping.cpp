#include "profiler/rules/grouping.h"

#include <algorithm>
#include <array>

namespace ferry::profiler::rules {
namespace {

// Ops that hand a value of the GPU to the program: a number, a decision, or a shape that depends on values.
constexpr std::array<std::string_view, 12> kReads = {
    "aten::_local_scalar_dense", "aten::item",     "aten::is_nonzero", "aten::nonzero",  "aten::equal",
    "aten::masked_select",       "aten::unique",   "aten::_unique2",   "aten::allclose", "Tensor.item",
    "np.asarray(jax.Array)",     "Array.__float__"};

}  // namespace

CopyKind kind_of(const TraceIndex& index, const Transfer& transfer) {
  if (!transfer.is_synchronous()) return CopyKind::none;
  if (transfer.direction == Direction::device_to_host && transfer.call >= 0) {
    for (const std::string_view op : index.op_chain(transfer.call)) {
      if (std::find(kReads.begin(), kReads.end(), op) != kReads.end()) return CopyKind::scalar_readback;
    }
  }
  return transfer.evidence == analysis::Evidence::pageable ? CopyKind::pageable_async_copy : CopyKind::sync_copy;
}

Finding& Grouping::place(EventIndex event, Direction direction, HostMemory memory) {
  const EventIndex op = event < 0 ? -1 : index_.op_of(event);
  const std::string_view frame = event < 0 ? std::string_view{} : index_.frame_of(event);
  std::string chain;
  std::vector<std::string_view> ops;
  if (event >= 0) ops = index_.op_chain(event);
  // Of copies each chain of ops is a place; other calls of a place are one, whatever leads to them.
  if (direction != Direction::unknown) {
    for (const std::string_view each : ops) chain += std::string(each) + '\n';
  }
  const Key key(index_.name(op), frame, std::move(chain), static_cast<int>(direction), static_cast<int>(memory));
  const auto [entry, is_new] = places_.try_emplace(key, findings_.size());
  if (is_new) {
    Finding& finding = findings_.emplace_back();
    finding.rule = rule_;
    finding.op = index_.name(op);
    finding.chain.assign(ops.begin(), ops.end());
    finding.frame = frame;
    finding.direction = direction;
    finding.memory = memory;
    if (event >= 0) finding.thread = index_.activity().tracks[static_cast<std::size_t>(index_.event(event).track)].name;
  }
  return findings_[entry->second];
}

void Grouping::add_time(Finding& finding, EventIndex event, Nanoseconds begin, Nanoseconds blocked, Nanoseconds drain) {
  ++finding.calls;
  finding.blocked += blocked;
  finding.drain += drain;
  finding.copying += blocked - drain;
  for (const analysis::Step& step : index_.steps()) {
    if (!step.time.contains(begin)) continue;
    finding.in_steps += blocked;
    break;
  }
  if (finding.worst < 0 || blocked > finding.worst_at) {
    finding.worst = event;
    finding.worst_at = blocked;
  }
}

Finding& Grouping::add(const Transfer& transfer) {
  Finding& finding = place(transfer.call, transfer.direction, transfer.memory);
  finding.size += transfer.size;
  const EventIndex shown = transfer.call >= 0 ? transfer.call : transfer.work;
  add_time(finding, shown, transfer.begin, transfer.blocked, transfer.drain);
  return finding;
}

Finding& Grouping::add(EventIndex event, Nanoseconds blocked) {
  Finding& finding = place(event, Direction::unknown, HostMemory::unknown);
  add_time(finding, event, index_.event(event).begin, blocked, blocked);
  return finding;
}

std::vector<Finding> Grouping::take() {
  std::stable_sort(findings_.begin(), findings_.end(),
                   [](const Finding& a, const Finding& b) { return a.blocked > b.blocked; });
  for (Finding& finding : findings_) finding.worst_at = index_.event(finding.worst).begin;
  places_.clear();
  return std::exchange(findings_, {});
}

}  // namespace ferry::profiler::rules
