#include "profiler/copy_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "profiler/format.h"

namespace ferry::profiler {
namespace {

void merge(std::vector<CopyKinds>& rows, const CopyKinds& more) {
  const auto same = [&](const CopyKinds& row) { return row.from == more.from && row.to == more.to; };
  const auto found = std::ranges::find_if(rows, same);
  if (found == rows.end()) return rows.push_back(more);
  found->calls += more.calls;
  found->size += more.size;
  found->time += more.time;
}

}  // namespace

std::string_view memory_text(trace::Memory memory) {
  switch (memory) {
    case trace::Memory::device:
      return "device";
    case trace::Memory::pinned:
      return "pinned";
    case trace::Memory::pageable:
      return "pageable";
  }
  return "";
}

CopyCheck check_copies(const trace::Trace& trace, std::span<const CopyActivity> activities) {
  CopyCheck check;
  if (activities.empty()) return check;
  check.library = activities.front().library;
  for (const CopyActivity& activity : activities) {
    check.others += activity.others;
    for (const CopyKinds& kinds : activity.kinds) merge(check.kinds, kinds);
  }
  std::unordered_set<std::uint64_t> seen;
  for (const trace::WorkRecord& work : trace.work) {
    if (work.kind == trace::WorkKind::copy) seen.insert(work.correlation);
  }
  for (const trace::CopyRecord& copy : trace.copies) {
    if (copy.size.count == 0 || (copy.from.is_cpu() && copy.to.is_cpu())) continue;
    ++check.recorded;
    if (seen.contains(copy.correlation)) ++check.seen;
  }
  return check;
}

std::string copy_check_text(const CopyCheck& check) {
  std::string kinds;
  for (const CopyKinds& row : check.kinds) {
    kinds += fmt::format("{}{} {}->{} of {}", kinds.empty() ? ": " : ", ", row.calls, memory_text(row.from),
                         memory_text(row.to), to_string(row.size));
  }
  if (check.holds()) {
    return fmt::format(
        "{} saw {}{}", check.library,
        check.recorded == 1 ? "the recorded copy" : fmt::format("all {} recorded copies", check.recorded), kinds);
  }
  return fmt::format("{} saw {} of {}, and {} besides{}", check.library, check.seen,
                     counted(check.recorded, "recorded copy", "recorded copies"), check.others, kinds);
}

}  // namespace ferry::profiler
