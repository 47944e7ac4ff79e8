#include "profiler/event_table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace ferry::profiler {
namespace {

// One op call, or a copy that no op record explains.
struct Call {
  std::uint32_t thread = 0;
  Nanoseconds begin{};
  Nanoseconds waited{};  // host time counted as GPU time
  Nanoseconds gpu{};
};

struct OpRow {
  EventRow row{};
  Nanoseconds first{};
};

struct ScopeNode {
  EventRow row{};
  Nanoseconds first{};
  std::vector<std::size_t> children{};
};

bool before(const Figures& a, const Figures& b, SortKey sort) {
  switch (sort) {
    case SortKey::default_order:
      return false;
    case SortKey::total:
      return a.total() > b.total();
    case SortKey::calls:
      return a.calls > b.calls;
    case SortKey::max:
      return a.max > b.max;
    case SortKey::min:
      return a.min > b.min;
    case SortKey::ave:
      return a.average() > b.average();
  }
  return false;
}

class Builder {
 public:
  Builder(const trace::Trace& trace, const WorkIndex& index, SortKey sort, std::int64_t thread)
      : trace_(trace), index_(index), sort_(sort), thread_(thread) {}

  EventTable build() {
    add_ops();
    add_copies();
    add_scopes();
    EventTable table{.thread = thread_};
    append_scopes(roots_, table.rows);
    append_ops(table.rows);
    return table;
  }

 private:
  bool wanted(std::uint32_t thread) const { return thread_ < 0 || thread == static_cast<std::uint32_t>(thread_); }

  OpRow& op_row(trace::StringIndex name, Nanoseconds begin) {
    const auto [entry, is_new] = by_name_.try_emplace(name, ops_.size());
    if (is_new) ops_.push_back({.row = {.name = trace_.string(name)}, .first = begin});
    OpRow& row = ops_[entry->second];
    row.first = std::min(row.first, begin);
    return row;
  }

  void add_ops() {
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const trace::OpRecord& op = trace_.ops[i];
      if (!wanted(op.thread)) continue;
      const CallTime time = index_.time_of_op(static_cast<trace::OpIndex>(i));
      op_row(op.name, op.begin).row.figures.add_call(time.cpu, time.gpu);
      calls_.push_back({op.thread, op.begin, op.end - op.begin - time.cpu, time.gpu});
    }
  }

  void add_copies() {
    for (const trace::CopyRecord& copy : trace_.copies) {
      if (!wanted(copy.thread) || copy.from == copy.to) continue;
      const CallTime time = index_.time_of(copy);
      const bool has_op = copy.op >= 0;
      EventRow& event =
          op_row(has_op ? trace_.ops[static_cast<std::size_t>(copy.op)].name : copy.op_name, copy.begin).row;
      copy_row(event, copy).figures.add_call(time.cpu, time.gpu);
      if (has_op) continue;
      event.figures.add_call(time.cpu, time.gpu);
      calls_.push_back({copy.thread, copy.begin, copy.end - copy.begin - time.cpu, time.gpu});
    }
  }

  CopyRow& copy_row(EventRow& event, const trace::CopyRecord& copy) {
    const std::string name = std::string(copy.synchronous ? "GpuMemcpySync:" : "GpuMemcpyAsync:") +
                             device_label(trace_, copy.from) + "->" + device_label(trace_, copy.to);
    const auto found = std::ranges::find(event.copies, name, &CopyRow::name);
    if (found != event.copies.end()) return *found;
    return event.copies.emplace_back(CopyRow{.name = name, .synchronous = copy.synchronous});
  }

  // Sums over calls of one thread that begin within an interval, from prefix sums.
  struct Prefix {
    std::vector<Nanoseconds> begins{}, waited{Nanoseconds(0)}, gpu{Nanoseconds(0)};
  };

  std::map<std::uint32_t, Prefix> prefix_sums() {
    std::ranges::stable_sort(calls_, {}, &Call::begin);
    std::map<std::uint32_t, Prefix> sums;
    for (const Call& call : calls_) {
      Prefix& prefix = sums[call.thread];
      prefix.begins.push_back(call.begin);
      prefix.waited.push_back(prefix.waited.back() + call.waited);
      prefix.gpu.push_back(prefix.gpu.back() + call.gpu);
    }
    return sums;
  }

  void add_scopes() {
    std::vector<const trace::ScopeRecord*> scopes;
    for (const trace::ScopeRecord& scope : trace_.scopes) {
      if (wanted(scope.thread)) scopes.push_back(&scope);
    }
    // A scope is recorded when it ends, its parent after it; at the same begin the outer one is first here.
    std::ranges::stable_sort(scopes, [](const auto* a, const auto* b) {
      return std::tuple(a->thread, a->begin, a->depth) < std::tuple(b->thread, b->begin, b->depth);
    });
    const std::map<std::uint32_t, Prefix> sums = prefix_sums();
    std::vector<std::pair<const trace::ScopeRecord*, std::size_t>> open;
    for (const trace::ScopeRecord* scope : scopes) {
      while (!open.empty() && (open.back().first->thread != scope->thread || open.back().first->depth >= scope->depth ||
                               open.back().first->end < scope->end)) {
        open.pop_back();
      }
      const std::size_t node = scope_node(open.empty() ? kNoParent : open.back().second, *scope);
      open.emplace_back(scope, node);
      add_scope_call(nodes_[node].row.figures, *scope, sums);
    }
  }

  static void add_scope_call(Figures& figures, const trace::ScopeRecord& scope,
                             const std::map<std::uint32_t, Prefix>& sums) {
    Nanoseconds waited{}, gpu{};
    if (const auto found = sums.find(scope.thread); found != sums.end()) {
      const Prefix& prefix = found->second;
      const auto at = [&](Nanoseconds time) {
        return static_cast<std::size_t>(std::ranges::lower_bound(prefix.begins, time) - prefix.begins.begin());
      };
      const std::size_t first = at(scope.begin), last = std::max(first, at(scope.end));
      waited = prefix.waited[last] - prefix.waited[first];
      gpu = prefix.gpu[last] - prefix.gpu[first];
    }
    figures.add_call(scope.end - scope.begin - waited, gpu);
  }

  std::size_t scope_node(std::size_t parent, const trace::ScopeRecord& scope) {
    const auto [entry, is_new] = by_path_.try_emplace({parent, scope.name}, nodes_.size());
    if (is_new) {
      const int depth = parent == kNoParent ? 0 : nodes_[parent].row.depth + 1;
      nodes_.push_back(
          {.row = {.name = trace_.string(scope.name), .is_scope = true, .depth = depth}, .first = scope.begin});
      (parent == kNoParent ? roots_ : nodes_[parent].children).push_back(entry->second);
    }
    ScopeNode& node = nodes_[entry->second];
    node.first = std::min(node.first, scope.begin);
    return entry->second;
  }

  template <class Rows>
  bool row_before(const Rows& a, const Rows& b) const {
    if (before(a.row.figures, b.row.figures, sort_)) return true;
    if (before(b.row.figures, a.row.figures, sort_)) return false;
    return a.first < b.first;
  }

  void append_scopes(std::vector<std::size_t> siblings, std::vector<EventRow>& rows) const {
    std::ranges::stable_sort(siblings, [&](std::size_t a, std::size_t b) { return row_before(nodes_[a], nodes_[b]); });
    for (const std::size_t i : siblings) {
      rows.push_back(nodes_[i].row);
      append_scopes(nodes_[i].children, rows);
    }
  }

  void append_ops(std::vector<EventRow>& rows) {
    std::ranges::stable_sort(ops_, [&](const OpRow& a, const OpRow& b) { return row_before(a, b); });
    for (OpRow& op : ops_) {
      std::ranges::stable_sort(op.row.copies,
                               [&](const CopyRow& a, const CopyRow& b) { return before(a.figures, b.figures, sort_); });
      rows.push_back(std::move(op.row));
    }
  }

  static constexpr std::size_t kNoParent = static_cast<std::size_t>(-1);

  const trace::Trace& trace_;
  const WorkIndex& index_;
  SortKey sort_;
  std::int64_t thread_;
  std::vector<OpRow> ops_;
  std::map<trace::StringIndex, std::size_t> by_name_;
  std::vector<Call> calls_;
  std::vector<ScopeNode> nodes_;
  std::vector<std::size_t> roots_;
  std::map<std::pair<std::size_t, trace::StringIndex>, std::size_t> by_path_;
};

}  // namespace

EventTable event_table(const trace::Trace& trace, const WorkIndex& index, SortKey sort, std::int64_t thread) {
  return Builder(trace, index, sort, thread).build();
}

}  // namespace ferry::profiler
