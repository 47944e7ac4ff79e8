#include "swap/engine/engine.h"

#include <algorithm>
#include <utility>

namespace ferry::swap {

Engine::Engine(EngineOptions options, Mechanism& mechanism)
    : state_{.options = std::move(options)},
      mechanism_(mechanism),
      history_(*this),
      transfers_(state_, mechanism, history_),
      room_(state_, mechanism, history_, transfers_),
      restorer_(state_, mechanism, history_, transfers_, room_),
      planning_(state_, mechanism, room_, restorer_) {}

namespace {

Engine& locked(Engine& engine, std::recursive_mutex& mutex) {
  mutex.lock();
  return engine;
}

}  // namespace

Engine::Frame::Frame(Engine& engine, Addresses addresses)
    : engine_(locked(engine, engine.mutex_)),
      first_held_(engine.held_.size()),
      outer_(std::exchange(engine.addresses_, addresses)) {
  ++engine_.frames_;
}

Engine::Frame::~Frame() {
  while (engine_.held_.size() > first_held_) {
    const Held last = engine_.held_.back();
    engine_.held_.pop_back();
    engine_.let_go(last);
  }
  engine_.addresses_ = outer_;
  if (--engine_.frames_ == 0) engine_.history_.bury();
  engine_.mutex_.unlock();
}

void Engine::hold(Value& value) {
  held_.push_back({&value, addresses_});
  if (value.holds++ == 0) in_use_ += value.size;
  if (addresses_ == Addresses::stay) ++value.pins;
  room_.lock(value);
}

void Engine::let_go(const Held& held) {
  if (--held.value->holds == 0) in_use_ = in_use_ - held.value->size;
  if (held.address == Addresses::stay) --held.value->pins;
  room_.unlock(*held.value);
}

void Engine::before(const ops::OpSchema& schema, ops::TensorPointers inputs) {
  if (!is_replaying()) planning_.before(schema, inputs);
}

Value& Engine::tracked(ferry::Storage& storage) {
  if (Value* known = History::value_of(storage)) return *known;
  Value& value = history_.track(storage);
  value.is_home = transfers_.is_resident(value);
  return value;
}

void Engine::use(ferry::Storage& storage) {
  if (is_replaying() || storage.size().count == 0) return;
  Value& value = tracked(storage);
  hold(value);
  bring(value);
}

void Engine::prepare(ferry::Storage& storage) {
  Value* const value = History::value_of(storage);
  if (is_replaying() || value == nullptr) return;
  hold(*value);
  bring(*value);
}

void Engine::bring(Value& value) {
  value.last_access = state_.now;
  room_.stop_leaving(value);
  // What lives elsewhere is copied by the runtime, as without a budget.
  if (!transfers_.is_resident(value) && (value.is_home || !has_bytes(value))) restorer_.restore(value);
}

void Engine::use_anywhere(ferry::Storage& storage) {
  Value* const value = History::value_of(storage);
  if (is_replaying() || value == nullptr) return;
  hold(*value);
  value->last_access = state_.now;
  if (!has_bytes(*value)) {
    restorer_.restore(*value);
  } else if (value->bytes()->find_valid() == nullptr) {
    transfers_.unspill(*value);
  }
}

void Engine::before_write(ferry::Storage& storage) {
  Value* const value = History::value_of(storage);
  if (is_replaying() || value == nullptr) return;
  if (value->producer == nullptr) {
    // What only the old contents give is computed now, and stays. Making room for one may drop others.
    for (auto absent = history_.absent_that_need(*value); !absent.empty(); absent = history_.absent_that_need(*value)) {
      for (Value* each : absent) hold(*each);
      for (Value* each : absent)
        if (!has_bytes(*each)) restorer_.restore(*each);
    }
  }
  planning_.rewrote(*value);
  history_.rewrite(*value);
  transfers_.discard_file(*value);
}

void* Engine::cleared(void* place, Bytes size) {
  if (place != nullptr) room_.clear(place, size);
  return place;
}

void* Engine::output_place(std::size_t output, Bytes size) {
  if (size.count == 0) return nullptr;
  return cleared(is_replaying() ? restorer_.result_place(output) : planning_.output_place(size), size);
}

void* Engine::copy_place(ferry::Storage& storage) {
  Value* const value = History::value_of(storage);
  void* place = value == nullptr ? nullptr : value->place;
  if (place == nullptr) place = planning_.input_place(storage.size());
  if (value != nullptr) value->place = place;
  return cleared(place, storage.size());
}

void Engine::arrived(ferry::Storage& storage) {
  if (Value* const value = History::value_of(storage); value != nullptr && !is_replaying())
    room_.place(*value, value->place);
}

void Engine::made(ferry::Storage& storage) {
  if (is_replaying() || storage.size().count == 0) return;
  Value& value = tracked(storage);
  value.last_access = state_.now;
  hold(value);
}

void Engine::ran(const CallNote& note) {
  state_.now += note.time;
  planning_.held(in_use_);
  if (is_replaying()) {
    state_.stats.recompute_time += note.time;
    return;
  }
  static const std::shared_ptr<Producer> kNoProducer;
  planning_.ran(note, repeats(note) ? history_.record(note) : kNoProducer);
  room_.keep_threshold();
}

// Whether the call may run again.
bool Engine::repeats(const CallNote& note) const {
  if (state_.options.methods == Methods::swap || note.schema.mutates != 0 || note.schema.updates_state) return false;
  for (std::size_t i = 0; note.schema.host_inputs != 0 && i < note.inputs.size(); ++i)
    if (note.inputs[i]->defined() && ops::has(note.schema.host_inputs, note.schema.place(i))) return false;
  return true;
}

bool Engine::make_room(Bytes missing) {
  const std::lock_guard lock(mutex_);
  return room_.make_room(missing);
}

void Engine::released(Value& value, ferry::Storage& dying) noexcept {
  const std::lock_guard lock(mutex_);
  room_.withdraw(value);
  room_.stop_leaving(value);
  history_.lose_storage(value);
  planning_.released(value);
  if (value.is_needed() && !state_.finished) keep_for_others(value, dying);
  if (frames_ == 0) history_.bury();
}

void Engine::keep_for_others(Value& value, ferry::Storage& dying) noexcept {
  if (value.producer != nullptr) {
    transfers_.discard_file(value);  // there is no storage any more that it could be read into
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
  room_.offer(value);
}

void Engine::forget(Value& value) noexcept {
  room_.withdraw(value);
  room_.stop_leaving(value);
  transfers_.discard_file(value);
  if (value.holds > 0) in_use_ = in_use_ - value.size;
  if (value.locks > 0) std::erase_if(held_, [&](const Held& each) { return each.value == &value; });
  planning_.forget(value);
  history_.forget(value);
}

void Engine::next_iteration() {
  const Frame frame(*this, Addresses::stay);
  try {
    planning_.end_iteration();
    room_.end_iteration();
    if (planning_.plan_next(history_.values())) mechanism_.prepare_host(planning_.host_copies());
  } catch (...) {
    begin_iteration();
    throw;
  }
  begin_iteration();
}

void Engine::begin_iteration() {
  Bytes tracked{};
  for (const Value* value : history_.values())
    if (value != nullptr && value->storage != nullptr && transfers_.is_resident(*value)) tracked += value->size;
  planning_.begin_iteration(history_.values(), std::max(mechanism_.allocated() - tracked, Bytes{0}),
                            room_.take_was_short());
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats result = state_.stats;
  result.tracked = history_.size();
  return result;
}

void Engine::load_plan(std::string_view json) {
  const std::lock_guard lock(mutex_);
  planning_.load(json);
}

Bytes Engine::smallest() const {
  const std::lock_guard lock(mutex_);
  return planning_.smallest();
}

std::string Engine::explain() const {
  const std::lock_guard lock(mutex_);
  return planning_.explain();
}

std::string Engine::save_plan() const {
  const std::lock_guard lock(mutex_);
  return planning_.save();
}

std::string Engine::refusal() const {
  const std::lock_guard lock(mutex_);
  return room_.refusal();
}

bool Engine::finish() noexcept {
  const Frame frame(*this, Addresses::stay);
  state_.finished = true;
  planning_.give_up();
  bool complete = true;
  std::vector<Value*> living;
  for (Value* value : history_.values())
    if (value != nullptr && value->storage != nullptr) living.push_back(value);
  for (Value* value : living) {
    try {
      if (!has_bytes(*value)) restorer_.restore(*value);
      if (value->file != SpillFile::kNowhere) transfers_.unspill(*value);
    } catch (...) {
      complete = false;
    }
  }
  room_.forget_leaving();
  if (!complete) return false;
  for (Value* value : living) {
    value->storage->set_watch(nullptr);
    history_.lose_storage(*value);
  }
  return true;
}

}  // namespace ferry::swap
