#include "swap/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ferry::swap {

StorageTensors::StorageTensors(const Iteration& iteration)
    : begin(iteration.storages.size() + 1), tensors(iteration.tensors.size()) {
  for (const Tensor& tensor : iteration.tensors) ++begin[static_cast<std::size_t>(tensor.storage) + 1];
  for (std::size_t s = 1; s < begin.size(); ++s) begin[s] += begin[s - 1];
  std::vector<std::size_t> end(begin.begin(), begin.end() - 1);
  for (std::size_t t = 0; t < tensors.size(); ++t)
    tensors[end[static_cast<std::size_t>(iteration.tensors[t].storage)]++] = static_cast<TensorIndex>(t);
}

Executor::Executor(const Iteration& iteration, const StorageTensors& tensors, const Options& options,
                   Strategy& strategy)
    : iteration_(iteration),
      tensors_(tensors),
      options_(options),
      strategy_(strategy),
      states_(iteration.storages.size()),
      defined_(iteration.tensors.size()) {
  if (options_.threshold.count <= 0) options_.threshold = options_.budget;
}

void Executor::note(Step::Kind kind, std::int32_t index) {
  if (options_.record != nullptr) options_.record->push_back({kind, index});
}

bool Executor::fail(std::string reason) {
  cost_.reason = std::move(reason);
  return false;
}

void Executor::lock(StorageIndex s) {
  if (state(s).locks++ == 0) strategy_.not_evictable(s);
}

void Executor::unlock(StorageIndex s) {
  if (--state(s).locks == 0) strategy_.evictable(s);
}

// Returns the block's number in the queue; kNone: it is free at once.
std::int64_t Executor::give_back(StorageIndex s, Nanoseconds end) {
  if (end <= now_) {
    used_ -= storage(s).size;
    end_residency(state(s).residency);
    return kNone;
  }
  leaving_ += storage(s).size;
  const auto later = std::ranges::upper_bound(leaving_queue_, end, {}, &Leaving::end);
  leaving_queue_.insert(later, {end, s, state(s).residency, ++last_leaving_});
  return last_leaving_;
}

void Executor::reap() {
  while (!leaving_queue_.empty() && leaving_queue_.front().end <= now_) {
    const auto [end, s, residency, number] = leaving_queue_.front();
    leaving_queue_.pop_front();
    end_residency(residency);
    if (state(s).leaving == number) state(s).leaving = kNone;
    used_ -= storage(s).size;
    leaving_ -= storage(s).size;
  }
}

void Executor::begin_residency(StorageIndex s) {
  if (options_.residencies != nullptr) state(s).residency = options_.residencies->begin(s);
}

void Executor::end_residency(std::int32_t residency) {
  if (options_.residencies != nullptr) options_.residencies->end(residency);
}

// All at the same time; those of what is there already end with the op.
void Executor::begin_residencies_of(OpIndex o) {
  if (options_.residencies == nullptr) return;
  made_.clear();
  for (const TensorIndex t : op(o).outputs)
    made_.push_back(storage(tensor(t).storage).root == t ? options_.residencies->begin(tensor(t).storage) : kNone);
  for (std::size_t i = 0; i < made_.size(); ++i) {
    if (made_[i] == kNone) continue;
    State& it = state(tensor(op(o).outputs[i]).storage);
    if (it.resident) {
      end_residency(made_[i]);
    } else {
      it.residency = made_[i];
    }
  }
}

// Waits until `bytes` fit, if what leaves is enough for that.
bool Executor::wait_for_leaving(Bytes bytes) {
  if (used_ - leaving_ + bytes > options_.budget) return false;
  while (used_ + bytes > options_.budget) {
    const Nanoseconds end = leaving_queue_.front().end;
    cost_.stall += std::max(end - now_, Nanoseconds{0});
    now_ = std::max(now_, end);
    reap();
  }
  return true;
}

bool Executor::allocate(Bytes bytes) {
  reap();
  while (used_ - leaving_ + bytes > options_.threshold) {
    if (!strategy_.make_room(used_ - leaving_ + bytes - options_.threshold)) break;
    reap();
  }
  if (!wait_for_leaving(bytes)) return fail(fmt::format("out of memory: {} more are needed", to_string(bytes)));
  used_ += bytes;
  cost_.peak = std::max(cost_.peak, used_);
  return true;
}

void Executor::drop(StorageIndex s) {
  State& it = state(s);
  if (it.resident) {
    give_back(s, it.arrival);
    strategy_.not_evictable(s);
  }
  it.resident = false;
  it.leaving = kNone;  // its block is free only when its copy has passed, of use or not
  it.host_ready = kNever;
  it.arrival = {};
  for (const TensorIndex t : tensors_.of(s)) defined_[static_cast<std::size_t>(t)] = false;
  note(Step::Kind::drop, s);
  strategy_.dropped(s);
}

void Executor::copy_out(StorageIndex s) {
  State& it = state(s);
  if (it.host_ready != kNever) return;
  it.host_ready = out_.enqueue(std::max(now_, it.arrival), options_.link.out_time(storage(s).size));
  cost_.bytes_out += storage(s).size;
  note(Step::Kind::copy_out, s);
}

void Executor::leave(StorageIndex s) {
  copy_out(s);
  State& it = state(s);
  it.resident = false;
  note(Step::Kind::leave, s);
  strategy_.not_evictable(s);
  it.leaving = give_back(s, std::max(it.host_ready, it.arrival));
}

bool Executor::bring_in(StorageIndex s) {
  reap();
  State& it = state(s);
  if (it.leaving != kNone) {  // the block is still there: keep it
    leaving_ -= storage(s).size;
    std::erase_if(leaving_queue_, [&](const Leaving& entry) { return entry.number == it.leaving; });
    it.leaving = kNone;
  } else {
    if (!allocate(storage(s).size)) return false;
    begin_residency(s);
    it.arrival = in_.enqueue(std::max(now_, it.host_ready), options_.link.in_time(storage(s).size));
    cost_.bytes_in += storage(s).size;
  }
  it.resident = true;
  note(Step::Kind::bring_in, s);
  if (it.locks == 0) strategy_.evictable(s);
  return true;
}

void Executor::make_resident(StorageIndex s, bool again) {
  State& it = state(s);
  if (it.resident) return;
  it.resident = true;
  if (again && it.host_ready == kNever) strategy_.recomputed(s);
  if (storage(s).pinned) it.locks = 1;
  if (it.locks == 0) strategy_.evictable(s);
}

bool Executor::create(TensorIndex t) {
  const StorageIndex s = tensor(t).storage;
  if (!allocate(storage(s).size)) return false;
  defined_[static_cast<std::size_t>(t)] = true;
  state(s).last_access = now_;
  note(Step::Kind::create, t);
  begin_residency(s);
  make_resident(s, false);
  return true;
}

void Executor::release(StorageIndex s) {
  State& it = state(s);
  it.released = true;
  if (storage(s).pinned) return;
  if (it.resident || has_host_copy(s)) drop(s);
}

Bytes Executor::output_bytes(OpIndex o) const {
  Bytes total{};
  for (const TensorIndex t : op(o).outputs) {
    const Storage& made = storage(tensor(t).storage);
    if (made.root == t) total += made.size;
  }
  return total;
}

void Executor::push(OpIndex o, bool again, TensorIndex wanted) {
  stack_.push_back({.op = o, .wanted = wanted, .first_flag = locked_inputs_.size(), .again = again});
  for (const TensorIndex t : op(o).reads(again)) {
    const StorageIndex s = tensor(t).storage;
    state(s).last_access = now_;
    const bool there = available(t);
    if (there) lock(s);
    locked_inputs_.push_back(there);
  }
}

bool Executor::advance() {
  Frame& frame = stack_.back();
  const std::vector<TensorIndex>& inputs = op(frame.op).reads(frame.again);
  for (; frame.next < inputs.size(); ++frame.next) {
    char& is_locked = locked_inputs_[frame.first_flag + frame.next];
    if (is_locked != 0) continue;
    const TensorIndex t = inputs[frame.next];
    const StorageIndex s = tensor(t).storage;
    if (!available(t)) {
      if (!resident(s) && has_host_copy(s)) {
        ++state(s).locks;  // before it is evictable for a moment
        const bool is_in = bring_in(s);
        --state(s).locks;
        if (!is_in) return false;
        if (!defined(t)) return push(tensor(t).producer, true, t), true;
      } else {
        if (tensor(t).producer == kNone || !storage(s).recomputable)
          return fail(fmt::format("'{}' is needed again and cannot be recomputed", tensor(t).name));
        return push(tensor(t).producer, true, t), true;
      }
    }
    if (state(s).locks++ == 0) strategy_.not_evictable(s);
    is_locked = 1;
  }
  const Frame done = frame;
  if (!finish(done)) return false;
  locked_inputs_.resize(done.first_flag);
  stack_.pop_back();
  return true;
}

bool Executor::finish(const Frame& frame) {
  const Op& it = op(frame.op);
  if (!allocate(output_bytes(frame.op))) return false;
  const std::vector<TensorIndex>& inputs = it.reads(frame.again);
  for (const TensorIndex t : inputs) {
    const Nanoseconds arrival = state(tensor(t).storage).arrival;
    cost_.stall += std::max(arrival - now_, Nanoseconds{0});
    now_ = std::max(now_, arrival);
  }
  if (options_.starts != nullptr && !frame.again) options_.starts->push_back(now_);
  now_ += it.time;
  if (frame.again) cost_.recompute += it.time;
  if (now_ > options_.time_limit) return fail("thrashing: the time limit is passed");
  note(Step::Kind::run, frame.op);
  strategy_.ran(frame.op, frame.again);
  begin_residencies_of(frame.op);
  const auto restore = [&](TensorIndex t) {
    const StorageIndex s = tensor(t).storage;
    if (storage(s).root == t && resident(s)) used_ -= storage(s).size;  // the op made it a second time
    defined_[static_cast<std::size_t>(t)] = true;
    if (!frame.again) state(s).last_access = now_;
    make_resident(s, frame.again);
  };
  for (const TensorIndex t : it.outputs)
    if (t != frame.wanted) restore(t);
  if (frame.wanted != kNone) restore(frame.wanted);
  for (const TensorIndex t : inputs) unlock(tensor(t).storage);
  return true;
}

bool Executor::execute(OpIndex o, bool again, TensorIndex wanted) {
  push(o, again, wanted);
  while (!stack_.empty())
    if (!advance()) return false;
  return true;
}

bool Executor::keep(TensorIndex t) {
  const StorageIndex s = tensor(t).storage;
  if (!resident(s) && has_host_copy(s) && !bring_in(s)) return false;
  if (!defined(t) && !execute(tensor(t).producer, true, t)) return false;
  if (!storage(s).pinned && state(s).locks++ == 0) strategy_.not_evictable(s);
  return true;
}

Cost Executor::run() {
  const auto happens = [this](const Event& event) {
    switch (event.kind) {
      case Event::Kind::create:
        return create(event.index);
      case Event::Kind::run: {
        const std::vector<TensorIndex>& outputs = op(event.index).outputs;
        return execute(event.index, false, outputs.empty() ? kNone : outputs.front());
      }
      case Event::Kind::release:
        release(event.index);
        return true;
    }
    return true;
  };
  for (std::size_t position = 0; position < iteration_.events.size(); ++position) {
    strategy_.before_event(position);
    if (!happens(iteration_.events[position])) return cost_;
  }
  strategy_.before_event(iteration_.events.size());
  for (const TensorIndex t : iteration_.kept)
    if (!keep(t)) return cost_;
  run_end();
  return cost_;
}

// The next iteration finds an idle link.
void Executor::run_end() {
  Nanoseconds end = std::max(now_, out_.tail());
  for (const TensorIndex t : iteration_.kept) end = std::max(end, state(tensor(t).storage).arrival);
  cost_.stall += end - now_;
  now_ = cost_.time = end;
  reap();
  cost_.feasible = true;
}

}  // namespace ferry::swap
