#include "swap/engine/engine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "swap/planner.h"

namespace ferry::swap {
namespace {

constexpr std::int64_t kAlwaysRecorded = 3;
constexpr std::int64_t kMisfits = 3;

}  // namespace

// A call that runs again, and how far its inputs are there.
struct Engine::Replay {
  std::shared_ptr<Producer> producer;
  std::size_t next = 0;
};

Engine::Engine(EngineOptions options, Mechanism& mechanism)
    : options_(std::move(options)),
      mechanism_(mechanism),
      policy_(make_policy(options_.policy)),
      pool_(*policy_, options_.victims),
      history_(*this) {
  if (options_.threshold.count > 0) begin_shortage();
}

// From now on it matters who leaves.
void Engine::begin_shortage() {
  was_short_ = true;
  if (is_short_) return;
  is_short_ = true;
  history_.keep_neighborhood();
  for (Value* value : history_.values())
    if (value != nullptr) offer(*value);
}

Engine::~Engine() = default;

Engine::Frame::Frame(Engine& engine) : engine_(engine) {
  engine_.mutex_.lock();
  first_held_ = engine_.held_.size();
  ++engine_.frames_;
}

Engine::Frame::~Frame() {
  while (engine_.held_.size() > first_held_) {
    Value& last = *engine_.held_.back();
    engine_.held_.pop_back();
    engine_.unlock(last);
  }
  if (--engine_.frames_ == 0) engine_.history_.bury();
  engine_.mutex_.unlock();
}

bool Engine::is_resident(const Value& value) const {
  ferry::Storage* const bytes = value.bytes();
  return bytes != nullptr && bytes->find(options_.device) != nullptr;
}

bool Engine::has_host_copy(const Value& value) const {
  if (value.file != SpillFile::kNowhere) return true;
  ferry::Storage* const bytes = value.bytes();
  return bytes != nullptr && bytes->find(cpu::device) != nullptr;
}

bool Engine::may_leave(const Value& value) const {
  if (value.locks > 0 || value.stays || value.is_leaving || finished_ || !is_resident(value)) return false;
  if (has_host_copy(value)) return true;
  if (options_.methods != Methods::swap && value.producer != nullptr) return true;
  return options_.methods != Methods::recompute && options_.link.exists();
}

Evictable Engine::evictable(const Value& value) const {
  const Nanoseconds out = has_host_copy(value) ? Nanoseconds{} : options_.link.out_time(value.size);
  return {.storage = value.index,
          .size = value.size,
          .last_access = value.last_access,
          .recomputable = value.producer != nullptr,
          .swap_time = options_.link.exists() ? out + options_.link.in_time(value.size) : Nanoseconds{}};
}

Situation Engine::situation() const {
  return {.now = now_,
          .methods = options_.methods,
          .neighborhood = history_.neighborhood(),
          .link_wait = std::max(out_.tail() - now_, Nanoseconds{0})};
}

void Engine::offer(Value& value) {
  if (is_short_ && may_leave(value) && !pool_.contains(value.index)) pool_.add(evictable(value), situation());
}

void Engine::withdraw(Value& value) {
  if (is_short_) pool_.remove(value.index);
}

void Engine::stop_leaving(Value& value) noexcept {
  if (!value.is_leaving) return;
  std::erase(leaving_, &value);
  value.is_leaving = false;
}

void Engine::hold(Value& value) {
  held_.push_back(&value);
  if (value.locks++ == 0) withdraw(value);
}

void Engine::unlock(Value& value) {
  if (--value.locks == 0) offer(value);
}

void Engine::before(const ops::OpSchema& schema, ops::TensorPointers inputs) {
  if (!replaying_) follower_.before(*this, schema, inputs);
}

Value& Engine::tracked(ferry::Storage& storage) {
  if (Value* known = History::value_of(storage)) return *known;
  Value& value = history_.track(storage);
  value.is_home = is_resident(value);
  return value;
}

void Engine::use(ferry::Storage& storage) {
  if (replaying_ || storage.size().count == 0) return;
  Value& value = tracked(storage);
  hold(value);
  value.last_access = now_;
  stop_leaving(value);  // the copy out goes on, the block is still there
  // What lives elsewhere is copied by the runtime, as without a budget.
  if (!is_resident(value) && (value.is_home || !has_bytes(value))) restore(value);
}

void Engine::use_anywhere(ferry::Storage& storage) {
  Value* const value = History::value_of(storage);
  if (replaying_ || value == nullptr) return;
  hold(*value);
  value->last_access = now_;
  if (!has_bytes(*value)) {
    restore(*value);
  } else if (value->bytes()->find_valid() == nullptr) {
    unspill(*value);
  }
}

void Engine::before_write(ferry::Storage& storage) {
  Value* const value = History::value_of(storage);
  if (replaying_ || value == nullptr) return;
  if (value->producer == nullptr) {
    // What only the old contents give is computed now, and stays. Making room for one may drop others.
    for (auto absent = history_.absent_that_need(*value); !absent.empty(); absent = history_.absent_that_need(*value)) {
      for (Value* each : absent) {
        hold(*each);
        if (!has_bytes(*each)) restore(*each);
      }
    }
  }
  if (records_) recorder_.rewrote(*value);
  history_.rewrite(*value);
  discard_file(*value);
}

void Engine::made(ferry::Storage& storage) {
  if (replaying_ || storage.size().count == 0) return;
  Value& value = tracked(storage);
  value.last_access = now_;
  hold(value);
}

void Engine::ran(const CallNote& note) {
  now_ += note.time;
  Bytes used{};
  for (const Value* value : held_) used += value->size;
  largest_call_ = std::max(largest_call_, used);
  if (replaying_) {
    stats_.recompute_time += note.time;
    return;
  }
  bool repeats = options_.methods != Methods::swap && note.schema.mutates == 0 && !note.schema.updates_state;
  for (std::size_t i = 0; repeats && i < note.inputs.size(); ++i)
    repeats = !note.inputs[i]->defined() || !ops::has(note.schema.host_inputs, note.schema.place(i));
  const std::shared_ptr<Producer> producer = repeats ? history_.record(note) : nullptr;
  if (records_) recorder_.ran(note, producer.get());
  follower_.ran(note, producer);
  while (options_.threshold.count > 0 && mechanism_.allocated() > options_.threshold && choose_and_evict()) {
  }
}

// The way back is walked with a stack of its own: chains may be long.
void Engine::restore(Value& wanted) {
  if (has_host_copy(wanted)) return bring_in(wanted);
  FERRY_CHECK(wanted.producer != nullptr, InvalidArgument, "a tensor of {} was dropped and cannot be computed again",
              to_string(wanted.size));
  std::vector<Replay> stack;
  const auto push = [&](const std::shared_ptr<Producer>& producer) {
    stack.push_back({producer});
    for (Operand& operand : producer->operands) {
      if (operand.value == nullptr) continue;
      operand.value->last_access = now_;
      if (operand.value->locks++ == 0) withdraw(*operand.value);
    }
  };
  const auto pop = [&] {
    for (Operand& operand : stack.back().producer->operands)
      if (operand.value != nullptr) unlock(*operand.value);
    stack.pop_back();
  };
  push(wanted.producer);
  try {
    while (!stack.empty()) {
      Replay& top = stack.back();
      std::vector<Operand>& operands = top.producer->operands;
      std::shared_ptr<Producer> missing;
      for (; top.next < operands.size() && missing == nullptr; ++top.next) {
        Value* const value = operands[top.next].value.get();
        if (value == nullptr) continue;
        stop_leaving(*value);
        if (is_resident(*value)) continue;
        if (has_host_copy(*value)) {
          bring_in(*value);
        } else {
          missing = value->producer;
          FERRY_CHECK(missing != nullptr, InvalidArgument, "an input of {} is gone and cannot be computed again",
                      top.producer->schema->name);
        }
      }
      if (missing != nullptr) {
        push(missing);
        continue;
      }
      run_again(*top.producer);
      pop();
    }
  } catch (...) {
    while (!stack.empty()) pop();
    throw;
  }
}

void Engine::run_again(Producer& producer) {
  std::vector<ferry::Storage*> inputs;
  for (const Operand& operand : producer.operands)
    inputs.push_back(operand.value == nullptr ? nullptr : operand.value->bytes());
  const bool outer = std::exchange(replaying_, true);
  std::vector<std::shared_ptr<ferry::Storage>> results;
  try {
    results = mechanism_.run_again(producer, inputs);
  } catch (...) {
    replaying_ = outer;
    throw;
  }
  replaying_ = outer;
  ++stats_.recomputations;
  for (std::size_t i = 0; i < results.size() && i < producer.results.size(); ++i) {
    Value* const value = producer.results[i];
    if (value == nullptr || results[i] == nullptr || has_bytes(*value)) continue;
    if (value->storage != nullptr) {
      value->storage->exchange_replicas(*results[i]);
    } else {
      value->own = std::move(results[i]);
    }
    history_.mark_restored(*value);
    offer(*value);
  }
}

void Engine::rerun(const std::shared_ptr<Producer>& producer) {
  if (replaying_) return;
  const auto absent = std::ranges::find_if(producer->results,
                                           [](const Value* value) { return value != nullptr && !has_bytes(*value); });
  if (absent == producer->results.end()) return;
  try {
    restore(**absent);
  } catch (const OutOfMemory&) {
    // The plan's addresses were not these. Whoever needs it computes it.
  }
}

void Engine::give_back(Value& value) {
  if (value.storage == nullptr && !has_host_copy(value)) {
    value.own.reset();
  } else {
    mechanism_.give_back(*value.bytes());
  }
}

void Engine::drop(Value& value) {
  const bool is_needless = value.storage == nullptr && value.consumers.empty();
  if (value.locks > 0 || value.bytes() == nullptr || (value.producer == nullptr && !is_needless)) return;
  stop_leaving(value);
  withdraw(value);
  if (!has_bytes(value)) return;
  ferry::Storage& bytes = *value.bytes();
  bytes.remove(options_.device);
  if (value.is_home) {
    bytes.remove(cpu::device);
    discard_file(value);
  }
  if (has_bytes(value)) return;
  if (value.storage == nullptr) value.own.reset();
  ++stats_.evictions;
  history_.mark_evicted(value);
}

// What was used longest ago goes from host memory to the file.
bool Engine::spill_oldest() {
  Value* oldest = nullptr;
  for (Value* value : history_.values()) {
    if (value == nullptr || value->locks > 0 || !value->is_home || value->file != SpillFile::kNowhere) continue;
    if (is_resident(*value) || !has_host_copy(*value)) continue;
    if (oldest == nullptr || value->last_access < oldest->last_access) oldest = value;
  }
  if (oldest == nullptr) return false;
  oldest->file = mechanism_.spill(*oldest->bytes());
  return oldest->file != SpillFile::kNowhere;
}

void Engine::unspill(Value& value) {
  mechanism_.unspill(*value.bytes(), value.file);
  discard_file(value);
}

void Engine::discard_file(Value& value) noexcept {
  if (value.file != SpillFile::kNowhere) mechanism_.discard(value.file, value.size);
  value.file = SpillFile::kNowhere;
}

bool Engine::copy_out(Value& value) {
  if (has_host_copy(value)) return true;
  bool is_out = mechanism_.copy_out(*value.bytes());
  while (!is_out && spill_oldest()) is_out = mechanism_.copy_out(*value.bytes());
  if (!is_out) {
    refusal_ = "There is no more host memory for swapped tensors";
    return false;
  }
  stats_.bytes_out += value.size;
  out_.enqueue(now_, options_.link.out_time(value.size));
  return true;
}

void Engine::leave(Value& value) {
  if (!may_leave(value) || !copy_out(value)) return;
  withdraw(value);
  value.is_leaving = true;
  leaving_.push_back(&value);
  ++stats_.evictions;
}

void Engine::bring_in(Value& value) {
  if (is_resident(value)) {
    stop_leaving(value);
    offer(value);
    return;
  }
  if (!has_host_copy(value)) return;
  if (value.file != SpillFile::kNowhere) unspill(value);
  mechanism_.bring_in(*value.bytes());
  stats_.bytes_in += value.size;
  in_.enqueue(now_, options_.link.in_time(value.size));
  offer(value);
}

void Engine::prefetch(Value& value) {
  const bool outer = std::exchange(only_leaving_, true);
  try {
    bring_in(value);
  } catch (const OutOfMemory&) {
    // The plan's addresses were not these. Whoever needs it brings it.
  }
  only_leaving_ = outer;
}

bool Engine::give_back_leaving(Bytes missing) {
  if (leaving_.empty()) return false;
  Bytes given{};
  std::size_t count = 0;
  while (count < leaving_.size() && given < missing) {
    Value& value = *leaving_[count++];
    value.is_leaving = false;
    given += value.size;
    give_back(value);
  }
  leaving_.erase(leaving_.begin(), leaving_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

// Bytes without a storage that nothing absent needs: what was computed from them cannot be computed again after this.
bool Engine::free_unneeded() {
  bool freed = false;
  // Dead values leave the list when they are buried; a cut may kill others than its own.
  history_.bury();
  for (std::size_t i = 0; i < history_.unrepeatable().size();) {
    Value& value = *history_.unrepeatable()[i];
    if (value.own == nullptr || value.locks > 0 || !history_.absent_that_need(value).empty()) {
      ++i;
      continue;
    }
    withdraw(value);
    history_.cut(value);  // the value itself waits to be buried
    value.own.reset();
    freed = true;
    history_.bury();
  }
  return freed;
}

// Nothing of an iteration's intermediate results is of use to the next.
void Engine::drop_intermediate() {
  free_unneeded();
  for (Value* value : history_.values())
    if (value != nullptr && value->storage == nullptr && value->own != nullptr && value->producer != nullptr)
      drop(*value);
}

bool Engine::evict(Value& value) {
  withdraw(value);
  const bool may_recompute = options_.methods != Methods::swap && value.producer != nullptr;
  const bool may_swap = has_host_copy(value) || (options_.methods != Methods::recompute && options_.link.exists());
  bool swaps = may_swap;
  if (may_swap && may_recompute) {
    const Situation at = situation();
    const Nanoseconds recompute =
        history_.neighborhood().own_cost(value.index) + history_.neighborhood().neighbors_cost(value.index);
    swaps = swap_cost(evictable(value), at) < recompute;
  }
  if (swaps && copy_out(value)) {
    ++stats_.evictions;
    give_back(value);
    return true;
  }
  if (!may_recompute) return false;
  drop(value);
  return true;
}

bool Engine::choose_and_evict() {
  for (;;) {
    const auto begin = std::chrono::steady_clock::now();
    const std::optional<Evictable> victim = pool_.choose(situation());
    stats_.decision_time += std::chrono::steady_clock::now() - begin;
    if (!victim) return false;
    ++stats_.decisions;
    // One that cannot go is not asked again until it is used.
    if (evict(*history_.at(victim->storage))) return true;
  }
}

Engine::Residents Engine::residents() const {
  Residents result;
  for (Value* value : history_.values()) {
    if (value == nullptr || !is_resident(*value)) continue;
    result.emplace(value->bytes()->find(options_.device)->allocation.data, value);
  }
  return result;
}

// Moves what no call uses, so that `size` bytes fit in one place. What is still being copied in stays: the compute
// stream would wait for it.
bool Engine::compact(Bytes size, const Residents& residents) {
  const auto owner = [&](void* address) -> ferry::Storage* {
    const auto resident = residents.find(address);
    if (resident == residents.end() || resident->second->locks > 0) return nullptr;
    ferry::Storage* const bytes = resident->second->bytes();
    return bytes->find(options_.device)->pending.value < 0 ? bytes : nullptr;
  };
  const std::optional<Bytes> moved = mechanism_.compact(size, owner);
  stats_.bytes_moved += moved.value_or(Bytes{});
  return moved.has_value();
}

// Evicts neighbours, so that `size` bytes fit in one place.
bool Engine::make_contiguous(Bytes size, const Residents& residents) {
  const Situation at = situation();
  const auto cost = [&](const void* address) {
    const auto owner = residents.find(address);
    if (owner == residents.end()) return std::numeric_limits<double>::infinity();
    const Value& value = *owner->second;
    if (value.is_leaving && value.locks == 0) return 0.0;
    if (!pool_.contains(value.index)) return std::numeric_limits<double>::infinity();
    const double score = policy_->score(evictable(value), at);
    return std::max(score, 0.0) * static_cast<double>(value.size.count) + 1e-9 * static_cast<double>(value.size.count);
  };
  const auto addresses = mechanism_.cheapest_room(size, cost);
  if (!addresses) return false;
  for (const void* address : *addresses) {
    Value& value = *residents.at(address);
    if (value.is_leaving) {
      std::erase(leaving_, &value);
      value.is_leaving = false;
      give_back(value);
    } else {
      ++stats_.decisions;
      if (!evict(value)) return false;
    }
  }
  return true;
}

bool Engine::make_room(Bytes missing) {
  const std::lock_guard lock(mutex_);
  if (making_room_ || finished_) return false;
  struct Flag {
    bool& flag;
    explicit Flag(bool& f) : flag(f) { flag = true; }
    ~Flag() { flag = false; }
  } const flag(making_room_);
  refusal_.clear();
  begin_shortage();
  if (give_back_leaving(missing)) return true;
  if (!only_leaving_ && free_unneeded()) return true;
  if (mechanism_.free_bytes() >= missing) {
    const Residents there = residents();
    if (compact(missing, there)) return true;
    if (!only_leaving_ && make_contiguous(missing, there)) return true;
  }
  if (only_leaving_) return false;
  return choose_and_evict();
}

void Engine::released(Value& value, ferry::Storage& dying) noexcept {
  const Frame frame(*this);
  history_.bury_later(dying.take_watch());
  withdraw(value);
  stop_leaving(value);
  value.storage = nullptr;
  if (records_) recorder_.released(value);
  if (value.consumers.empty() || finished_) return;
  if (value.producer != nullptr) {
    history_.measure_chain(value);
    if (value.chain < History::kLongestChain || !history_.absent_that_need(value).empty()) {
      history_.mark_evicted(value);
      return;
    }
    return history_.cut(value);
  }
  // Others can be computed again only with these bytes: they stay until something needs the room.
  value.own = std::make_shared<ferry::Storage>(dying.size(), dying.owner());
  value.own->exchange_replicas(dying);
  history_.add_unrepeatable(value);
  offer(value);
}

void Engine::forget(Value& value) noexcept {
  withdraw(value);
  discard_file(value);
  if (value.locks > 0) std::erase(held_, &value);
  if (value.is_leaving) std::erase(leaving_, &value);
  follower_.forget(value);
  recorder_.forget(value);
  history_.forget(value);
}

void Engine::next_iteration() {
  const Frame frame(*this);
  ++stats_.iterations;
  if (follower_.end_iteration(*this)) {
    ++stats_.planned_iterations;
    misfits_ = 0;
  } else if (records_ && recorder_.ops() > 0) {
    replan();
  }
  drop_intermediate();
  Bytes tracked{};
  for (const Value* value : history_.values())
    if (value != nullptr && value->storage != nullptr && is_resident(*value)) tracked += value->size;
  // The first iterations are recorded in any case; later ones that have room need no plan.
  const bool is_of_use = was_short_ || follower_.has_plan() || stats_.iterations < kAlwaysRecorded;
  records_ = options_.plans && options_.budget.count > 0 && is_of_use;
  was_short_ = false;
  if (records_) recorder_.begin(history_.values(), std::max(mechanism_.allocated() - tracked, Bytes{0}));
  follower_.begin_iteration();
}

void Engine::replan() {
  IterationRecorder::Recorded recorded = recorder_.end(history_.values());
  const PlannerOptions planner{.budget = options_.budget,
                               .methods = options_.methods,
                               .link = options_.link,
                               .reserve = kReserve,
                               .find_smallest = false};
  const std::uint64_t print = fingerprint(recorded.iteration);
  const bool repeats = std::exchange(fingerprint_, print) == print;
  if (!repeats) smallest_.reset();
  last_ = recorded.iteration;
  largest_call_ = {};
  // A program that never did what its plan expected is planned when it repeats itself, and now and then.
  if (follower_.has_plan()) ++misfits_;
  if (misfits_ >= kMisfits && !repeats && !std::has_single_bit(static_cast<std::uint64_t>(stats_.iterations)))
    return follower_.give_up();
  const auto spare = static_cast<std::int64_t>(static_cast<double>(options_.budget.count) * (1 - kReserve));
  if (unconstrained(recorded.iteration).peak.count <= spare) return follower_.give_up();
  // Copies of what lives in pageable memory stay where that is possible: the host would have to stage them again,
  // behind all prefetches.
  const auto pin_copies = [&](bool pinned) {
    for (const StorageIndex copy : recorded.copies)
      recorded.iteration.storages[static_cast<std::size_t>(copy)].pinned = pinned;
  };
  pin_copies(true);
  if (!loaded_.empty()) {
    const std::string text = std::exchange(loaded_, {});
    try {
      Plan plan = plan_from_json(text, "the loaded plan", recorded.iteration);
      last_ = recorded.iteration;
      if (plan.budget <= options_.budget)
        return follower_.adopt(std::move(recorded.iteration), std::move(plan), recorded.values);
    } catch (const ParseError&) {
      // It was made for another iteration: this one is planned anew.
    }
  }
  PlanResult result = make_plan(recorded.iteration, planner);
  if (!result.plan && !recorded.copies.empty()) {
    pin_copies(false);
    result = make_plan(recorded.iteration, planner);
  }
  if (!result.plan) return follower_.give_up();
  last_ = recorded.iteration;  // with what was pinned: the plan's
  ++stats_.plans;
  follower_.adopt(std::move(recorded.iteration), std::move(*result.plan), recorded.values);
}

void Engine::load_plan(std::string_view json) {
  FERRY_CHECK(json.find("\"ferry_plan\"") != std::string_view::npos, ParseError,
              "load_plan: the text is no plan; save_plan writes one");
  const std::lock_guard lock(mutex_);
  loaded_ = json;
  follower_.give_up();
}

Bytes Engine::smallest() const {
  const std::lock_guard lock(mutex_);
  if (last_.ops.empty()) return largest_call_;
  const PlannerOptions planner{
      .budget = options_.budget, .methods = options_.methods, .link = options_.link, .reserve = kReserve};
  if (!smallest_) smallest_ = smallest_budget(last_, planner);
  return std::max(*smallest_, largest_call_);
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats result = stats_;
  result.tracked = history_.size();
  return result;
}

std::string Engine::explain() const {
  const std::lock_guard lock(mutex_);
  if (!follower_.has_plan()) return "there is no plan: memory is given up by the policy\n";
  return swap::explain(follower_.plan(), follower_.iteration());
}

std::string Engine::save_plan() const {
  const std::lock_guard lock(mutex_);
  return follower_.has_plan() ? plan_to_json(follower_.plan(), follower_.iteration()) : std::string();
}

std::string Engine::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

bool Engine::finish() noexcept {
  const Frame frame(*this);
  finished_ = true;
  follower_.give_up();
  bool complete = true;
  std::vector<std::shared_ptr<Value>> living;
  for (Value* value : history_.values())
    if (value != nullptr && value->storage != nullptr)
      living.push_back(std::static_pointer_cast<Value>(value->storage->shared_watch()));
  for (const std::shared_ptr<Value>& value : living) {
    try {
      if (!has_bytes(*value)) restore(*value);
      if (value->file != SpillFile::kNowhere) unspill(*value);
    } catch (...) {
      complete = false;
    }
  }
  leaving_.clear();
  for (const std::shared_ptr<Value>& value : living) {
    value->is_leaving = false;
    if (complete) history_.bury_later(value->storage->take_watch());
  }
  return complete;
}

}  // namespace ferry::swap
