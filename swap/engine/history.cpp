#include "swap/engine/history.h"

#include <algorithm>
#include <utility>

#include "src/ops/attributes.h"
#include "src/ops/schemas.h"
#include "src/tensor/cell_cache.h"
#include "src/tensor/tensor_impl.h"
#include "swap/engine/engine.h"

namespace ferry::swap {

Value::~Value() { engine.forget(*this); }

Value::Value(Engine& the_engine, Bytes bytes) : engine(the_engine), size(bytes) {}

void Value::released(ferry::Storage& dying) noexcept { engine.released(*this, dying); }

Producer::~Producer() {
  for (Operand& operand : operands) {
    if (operand.value == nullptr) continue;
    operand.leave();
    if (!operand.value->is_needed()) graveyard.dead.push_back(operand.value);
  }
  graveyard.put_operands(operands);
}

History::~History() { bury(); }

void History::bury() noexcept {
  while (!graveyard_.dead.empty()) {
    Value* const next = graveyard_.dead.back();
    graveyard_.dead.pop_back();
    next->~Value();
    CellCache<sizeof(Value)>::give_back(next);
  }
}

Value& History::make_value(Bytes size) {
  void* const cell = CellCache<sizeof(Value)>::take();
  ++count_;
  return *new (cell) Value(engine_, size);
}

StorageIndex History::take_index(Value& value) {
  StorageIndex index = static_cast<StorageIndex>(values_.size());
  if (free_.empty()) {
    values_.push_back(&value);
    free_.reserve(values_.capacity());  // so that giving one back never allocates
  } else {
    index = free_.back();
    free_.pop_back();
    values_[static_cast<std::size_t>(index)] = &value;
  }
  if (keeps_neighborhood_) neighborhood_.know(static_cast<StorageIndex>(values_.size()));
  return index;
}

void History::keep_neighborhood() {
  if (keeps_neighborhood_) return;
  keeps_neighborhood_ = true;
  neighborhood_.know(static_cast<StorageIndex>(values_.size()));
  for (Value* value : values_) {
    if (value == nullptr) continue;
    if (value->is_evicted) neighborhood_.evicted(value->index);
    // Each call once: by its first result.
    const Producer* const producer = value->producer.get();
    if (producer == nullptr) continue;
    const auto first = std::ranges::find_if(producer->results, [](const Value* result) { return result != nullptr; });
    if (*first == value) add_to_neighborhood(*producer);
  }
}

void History::add_to_neighborhood(const Producer& producer) {
  reads_.clear();
  writes_.clear();
  for (const Operand& operand : producer.operands)
    if (operand.value != nullptr) reads_.push_back(operand.value->index);
  for (const Value* result : producer.results)
    if (result != nullptr) writes_.push_back(result->index);
  neighborhood_.add_op(reads_, writes_, producer.time);
}

void History::give_up_index(Value& value) noexcept {
  if (value.is_evicted) mark_restored(value);
  if (keeps_neighborhood_) neighborhood_.forget(value.index);
  values_[static_cast<std::size_t>(value.index)] = nullptr;
  free_.push_back(value.index);
}

Value& History::track(ferry::Storage& storage) {
  if (Value* known = value_of(storage)) return *known;
  Value& value = make_value(storage.size());
  value.index = take_index(value);
  value.storage = &storage;
  // The storage tells of its end and owns nothing.
  storage.set_watch(std::shared_ptr<StorageWatch>(std::shared_ptr<void>(), &value));
  return value;
}

void History::forget(Value& value) noexcept {
  std::erase(unrepeatable_, &value);
  leave_producer(value);
  give_up_index(value);
  --count_;
}

void History::leave_producer(Value& value) noexcept {
  if (value.producer == nullptr) return;
  for (Value*& result : value.producer->results)
    if (result == &value) result = nullptr;
}

namespace {

// Each call under a budget goes through these.
[[gnu::always_inline]] inline std::shared_ptr<Producer> make_producer(Graveyard& graveyard, const CallNote& note,
                                                                      const ops::OpSchema& schema,
                                                                      const Attributes& attributes,
                                                                      std::size_t operands) {
  auto producer = make_cell<Producer>(graveyard, operands);
  producer->schema = &schema;
  producer->attributes = attributes;
  producer->where = note.where;
  producer->device = note.device;
  producer->time = note.time;
  return producer;
}

[[gnu::always_inline]] inline void add_operand(Producer& producer, const ferry::Tensor& input, bool is_read) {
  if (!input.defined()) {
    producer.add_operand();
    return;
  }
  const TensorImpl& tensor = *input.impl();
  Operand& operand = producer.add_operand(tensor);
  if (is_read && tensor.storage->watch() != nullptr) operand.read(*History::value_of(*tensor.storage), producer);
}

}  // namespace

[[gnu::always_inline]] inline const std::shared_ptr<Producer>& History::give(std::shared_ptr<Producer>& producer,
                                                                             Results results) {
  Value* last = nullptr;
  for (const ferry::Tensor& result : results) {
    Value* const value = result.defined() ? value_of(*result.impl()->storage) : nullptr;
    producer->results[producer->result_count++] = value;
    if (value == nullptr) continue;
    if (last != nullptr) last->producer = producer;
    last = value;
  }
  static const std::shared_ptr<Producer> kNoProducer;
  if (last == nullptr) return kNoProducer;
  if (keeps_neighborhood_) add_to_neighborhood(*producer);
  last->producer = std::move(producer);  // most calls have one result: nothing is counted
  return last->producer;
}

const std::shared_ptr<Producer>& History::record(const CallNote& note) {
  if (&note.schema == &ops::kBatchNorm) return record_batch_norm(note);
  if (&note.schema == &ops::kRelu)
    if (const Producer* const before = normalization_before(note)) return record_normalized_relu(note, *before);
  auto producer = make_producer(graveyard_, note, note.schema, note.attributes, note.inputs.size());
  for (std::size_t i = 0; i < note.inputs.size(); ++i)
    add_operand(*producer, *note.inputs[i], !ops::has(note.schema.metadata_inputs, note.schema.place(i)));
  return give(producer, note.outputs);
}

// y is had again from the statistics, which only the call itself gives.
const std::shared_ptr<Producer>& History::record_batch_norm(const CallNote& note) {
  const Results y = note.outputs.first(1), statistics = note.outputs.subspan(1);
  auto whole = make_producer(graveyard_, note, note.schema, note.attributes, note.inputs.size());
  for (const ferry::Tensor* input : note.inputs) add_operand(*whole, *input, true);
  whole->result_count = 1;  // y is none of its results
  give(whole, statistics);
  auto apply = make_producer(graveyard_, note, ops::kBatchNormApply,
                             ops::BatchNormApplyAttributes{.strides = y.front().impl()->strides, .relu = false},
                             note.inputs.size() + statistics.size());
  for (const ferry::Tensor* input : note.inputs) add_operand(*apply, *input, true);
  for (const ferry::Tensor& each : statistics) add_operand(*apply, each, true);
  return give(apply, y);
}

const std::shared_ptr<Producer>& History::record_normalized_relu(const CallNote& note, const Producer& before) {
  auto attributes = before.attributes.as<ops::BatchNormApplyAttributes>();
  attributes.relu = true;
  auto producer = make_producer(graveyard_, note, ops::kBatchNormApply, attributes, before.operands.size());
  for (const Operand& operand : before.operands) {
    Operand& same = producer->add_operand(operand);
    if (operand.value != nullptr) same.read(*operand.value, *producer);
  }
  return give(producer, note.outputs);
}

const Producer* History::normalization_before(const CallNote& note) const {
  const TensorImpl &x = *note.inputs[0]->impl(), &y = *note.outputs[0].impl();
  const Value* const value = value_of(*x.storage);
  const Producer* const producer = value == nullptr ? nullptr : value->producer.get();
  if (producer == nullptr || producer->schema != &ops::kBatchNormApply || producer->device != note.device)
    return nullptr;
  const auto& attributes = producer->attributes.as<ops::BatchNormApplyAttributes>();
  const bool is_all = x.offset == 0 && x.shape == producer->operands[0].shape() && x.strides == attributes.strides &&
                      y.strides == attributes.strides && x.dtype == producer->operands[0].dtype;
  return is_all && !attributes.relu ? producer : nullptr;
}

std::vector<Value*> History::absent_that_need(const Value& value) const {
  std::vector<Value*> found;
  walk_.assign(1, &value);
  for (std::size_t next = 0; next < walk_.size(); ++next) {
    for (const Operand* operand = walk_[next]->readers; operand != nullptr; operand = operand->next) {
      for (Value* result : operand->reader->results) {
        if (result == nullptr || has_bytes(*result)) continue;
        if (result->storage != nullptr) {
          if (std::ranges::find(found, result) == found.end()) found.push_back(result);
        } else if (std::ranges::find(walk_, result) == walk_.end()) {
          walk_.push_back(result);
        }
      }
    }
  }
  return found;
}

void History::cut(Value& value) {
  bury();  // the loop below counts on living producers only
  std::vector<Value*> gone = {&value};
  while (!gone.empty()) {
    Value& next = *gone.back();
    gone.pop_back();
    while (next.readers != nullptr) {
      Producer& producer = *next.readers->reader;
      std::shared_ptr<Producer> held;
      for (Value*& result : producer.results) {
        if (result == nullptr) continue;
        if (result->storage == nullptr) has_bytes(*result) ? add_unrepeatable(*result) : gone.push_back(result);
        held = std::move(result->producer);
        result->producer = nullptr;
        result = nullptr;
      }
      // The last reference: its destructor takes it out of `next.readers`.
      held.reset();
    }
  }
}

void History::add_unrepeatable(Value& value) {
  if (std::ranges::find(unrepeatable_, &value) == unrepeatable_.end()) unrepeatable_.push_back(&value);
}

void History::rewrite(Value& value) {
  if (value.producer == nullptr) return cut(value);
  if (value.readers == nullptr) {
    leave_producer(value);
    value.producer.reset();
    give_up_index(value);
    value.index = take_index(value);
    return;
  }
  // The old contents are a value of their own from now on, absent.
  Value& old = make_value(value.size);
  old.index = value.index;
  values_[static_cast<std::size_t>(old.index)] = &old;
  value.index = take_index(value);
  old.producer = std::move(value.producer);
  value.producer = nullptr;
  for (Value*& result : old.producer->results)
    if (result == &value) result = &old;
  old.readers = std::exchange(value.readers, nullptr);
  for (Operand* operand = old.readers; operand != nullptr; operand = operand->next) operand->value = &old;
  old.last_access = value.last_access;
  measure_chain(old);
  mark_evicted(old);
}

void History::measure_chain(Value& value) const {
  value.chain = 1;
  if (value.producer == nullptr) return;
  for (const Operand& operand : value.producer->operands)
    if (operand.value != nullptr && operand.value->storage == nullptr)
      value.chain = std::max(value.chain, operand.value->chain + 1);
}

void History::mark_evicted(Value& value) {
  if (value.is_evicted) return;
  value.is_evicted = true;
  if (keeps_neighborhood_) neighborhood_.evicted(value.index);
}

void History::mark_restored(Value& value) {
  if (!value.is_evicted) return;
  value.is_evicted = false;
  if (keeps_neighborhood_) neighborhood_.restored(value.index);
}

}  // namespace ferry::swap
