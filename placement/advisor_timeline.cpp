#include "placement/advisor_timeline.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace ferry::placement {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// An op or copy on its host thread.
struct Item {
  Nanoseconds begin{}, end{};
  bool is_copy = false;
  std::int64_t index = 0;
};

}  // namespace

struct Timeline::State {
  struct Gpu {
    Nanoseconds compute{}, to_device{}, to_host{};  // when each is free
  };
  std::vector<Nanoseconds> host;  // by thread
  std::map<Device, Gpu> gpus;
  std::unordered_map<trace::OpIndex, Nanoseconds> inputs_there;  // when an op's copies have passed

  Nanoseconds end() const {
    Nanoseconds last{};
    for (const Nanoseconds time : host) last = std::max(last, time);
    for (const auto& [_, gpu] : gpus) last = std::max({last, gpu.compute, gpu.to_device, gpu.to_host});
    return last;
  }
};

Timeline::Timeline(const trace::Trace& trace, const CopyCost& copy_cost, const OpCost& op_cost)
    : trace_(trace), copy_cost_(copy_cost), op_cost_(op_cost) {
  make_steps();
  make_copies();
  recorded_ = duration({});
}

// Splits each thread's time into what its innermost call used.
void Timeline::make_steps() {
  std::map<std::uint32_t, std::vector<Item>> threads;
  for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
    const trace::OpRecord& op = trace_.ops[i];
    threads[op.thread].push_back({op.begin, op.end, false, static_cast<std::int64_t>(i)});
  }
  for (std::size_t i = 0; i < trace_.copies.size(); ++i) {
    const trace::CopyRecord& copy = trace_.copies[i];
    threads[copy.thread].push_back({copy.begin, copy.end, true, static_cast<std::int64_t>(i)});
  }
  for (auto& [_, items] : threads) {
    std::ranges::stable_sort(items, [](const Item& a, const Item& b) {
      if (a.begin != b.begin) return a.begin < b.begin;
      return a.end != b.end ? a.end > b.end : a.is_copy < b.is_copy;
    });
    std::vector<Item> open;
    Nanoseconds now = std::min(trace_.begin, items.front().begin);
    const auto pass = [&](Nanoseconds until) {
      // A copy's own time is modelled when it ends.
      const bool in_copy = !open.empty() && open.back().is_copy;
      if (until > now && !in_copy)
        steps_.push_back({Kind::host, threads_, open.empty() ? -1 : open.back().index, until, until - now});
      now = std::max(now, until);
    };
    const auto close = [&] {
      pass(open.back().end);
      steps_.push_back({open.back().is_copy ? Kind::copy : Kind::op, threads_, open.back().index, now, {}});
      open.pop_back();
    };
    for (const Item& item : items) {
      while (!open.empty() && open.back().end <= item.begin) close();
      pass(item.begin);
      if (!item.is_copy) steps_.push_back({Kind::op_begin, threads_, item.index, now, {}});
      open.push_back(item);
    }
    while (!open.empty()) close();
    ++threads_;
  }
  std::ranges::stable_sort(steps_, {}, &Step::at);
}

void Timeline::make_copies() {
  struct Work {
    Nanoseconds begin{}, time{};
  };
  std::unordered_map<std::uint64_t, Work> work;
  std::map<Device, std::vector<const trace::WorkRecord*>> by_device;
  for (const trace::WorkRecord& record : trace_.work) {
    by_device[record.device].push_back(&record);
    const auto [entry, is_new] = work.try_emplace(record.correlation, Work{record.begin, {}});
    entry->second.begin = std::min(entry->second.begin, record.begin);
    entry->second.time += record.end - record.begin;
  }
  // When a device was last busy before the work of a correlation began.
  std::unordered_map<std::uint64_t, Nanoseconds> busy_until;
  for (auto& [_, records] : by_device) {
    std::ranges::stable_sort(records, {}, &trace::WorkRecord::begin);
    Nanoseconds tail{};
    for (const trace::WorkRecord* record : records) {
      busy_until.try_emplace(record->correlation, tail);
      tail = std::max(tail, record->end);
    }
  }
  for (const trace::CopyRecord& copy : trace_.copies) {
    CopyModel& model = copies_.emplace_back();
    model.waits = copy.drain + copy.transfer > Nanoseconds(0);
    model.host = copy.end - copy.begin;
    model.work = copy.transfer;
    const auto found = copy.correlation == 0 ? work.end() : work.find(copy.correlation);
    if (found == work.end()) continue;
    model.work = found->second.time;
    // Work that starts as soon as the device is free waited for the device, else for the host.
    const Nanoseconds begin = found->second.begin;
    if (busy_until[copy.correlation] < begin) model.issue = std::max(begin - copy.begin, Nanoseconds(0));
  }
}

void Timeline::run_op(trace::OpIndex op, std::size_t thread, const Device* moved_to, State& state) const {
  // An estimate is no argument for a shorter queue on the GPU: the kernel keeps its time there.
  const bool stays = moved_to == nullptr || (moved_to->is_cpu() && op_cost_.is_estimate(op, *moved_to));
  const Device place = stays ? trace_.ops[at(op)].device : *moved_to;
  Nanoseconds& host = state.host[thread];
  if (moved_to != nullptr) host += op_cost_.host_on(op, *moved_to);
  const Nanoseconds kernel = stays ? op_cost_.measured_device(op) : op_cost_.device_on(op, *moved_to);
  if (place.is_cpu() || kernel == Nanoseconds(0)) return;
  Nanoseconds& tail = state.gpus[place].compute;
  const auto inputs = state.inputs_there.find(op);
  tail = std::max({host, tail, inputs == state.inputs_there.end() ? Nanoseconds(0) : inputs->second}) + kernel;
}

void Timeline::run_copy(const CopyModel& model, Device from, Device to, trace::OpIndex op, std::size_t thread,
                        State& state) const {
  Nanoseconds& host = state.host[thread];
  State::Gpu& gpu = state.gpus[to.is_gpu() ? to : from];
  Nanoseconds& link = to.is_gpu() ? gpu.to_device : gpu.to_host;
  if (!model.waits) host += model.host;
  Nanoseconds start = std::max(host + (model.waits ? model.issue : Nanoseconds(0)), link);
  if (to.is_cpu() || model.waits) start = std::max(start, gpu.compute);
  link = start + model.work;
  if (model.waits) host = link;
  if (op >= 0) {
    Nanoseconds& there = state.inputs_there[op];
    there = std::max(there, link);
  }
}

Nanoseconds Timeline::duration(const TimelineChanges& changes) const {
  std::vector<const Device*> moved(trace_.ops.size(), nullptr);
  std::vector<char> removed(trace_.copies.size(), 0);
  for (const MovedOp& op : changes.moved) moved[at(op.op)] = &op.device;
  for (const std::int64_t copy : changes.removed) removed[at(copy)] = 1;
  std::vector<AddedCopy> added = changes.added;
  std::ranges::stable_sort(added, {}, &AddedCopy::before);
  State state;
  state.host.resize(threads_);
  const auto add_copies = [&](trace::OpIndex op, std::size_t thread) {
    for (const AddedCopy& copy : std::ranges::equal_range(added, op, {}, &AddedCopy::before)) {
      const bool waits = copy_cost_.blocks(copy.from, copy.to);
      run_copy({.waits = waits,
                .issue = {},
                .host = copy_cost_.issue(copy.from, copy.to, copy.size),
                .work = copy_cost_.transfer(copy.from, copy.to, copy.size)},
               copy.from, copy.to, op, thread, state);
    }
  };
  for (const Step& step : steps_) {
    if (step.kind == Kind::host) {
      if (step.item < 0 || moved[at(step.item)] == nullptr) state.host[step.thread] += step.time;
    } else if (step.kind == Kind::op_begin) {
      add_copies(step.item, step.thread);
    } else if (step.kind == Kind::op) {
      run_op(step.item, step.thread, moved[at(step.item)], state);
    } else if (!removed[at(step.item)]) {
      const trace::CopyRecord& copy = trace_.copies[at(step.item)];
      run_copy(copies_[at(step.item)], copy.from, copy.to, copy.op, step.thread, state);
    }
  }
  if (threads_ > 0) add_copies(static_cast<trace::OpIndex>(trace_.ops.size()), 0);
  return state.end();
}

}  // namespace ferry::placement
