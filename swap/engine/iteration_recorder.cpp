#include "swap/engine/iteration_recorder.h"

#include <algorithm>
#include <utility>

#include "src/tensor/tensor_impl.h"

namespace ferry::swap {

std::vector<Value*> values_read(const ops::OpSchema& schema, ops::TensorPointers inputs) {
  std::vector<Value*> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]->defined() || ops::has(schema.metadata_inputs, schema.place(i))) continue;
    ferry::Storage& storage = *inputs[i]->impl()->storage;
    if (storage.size().count == 0 || ops::has(schema.host_inputs, schema.place(i))) continue;
    Value* const value = History::value_of(storage);
    // Views of one storage are one value, also before it is known.
    const bool is_repeated = value != nullptr ? std::ranges::find(values, value) != values.end()
                                              : std::ranges::any_of(inputs.first(i), [&](const ferry::Tensor* other) {
                                                  return other->defined() && other->impl()->storage.get() == &storage;
                                                });
    if (!is_repeated) values.push_back(value);
  }
  return values;
}

StorageIndex IterationRecorder::add_storage(Bytes size, bool recomputable, bool pinned) {
  iteration_.storages.push_back({.size = size, .pinned = pinned, .recomputable = recomputable});
  latest_.push_back(kNone);
  released_.push_back(false);
  marked_.push_back(false);
  readers_.emplace_back();
  return static_cast<StorageIndex>(iteration_.storages.size()) - 1;
}

TensorIndex IterationRecorder::add(StorageIndex storage, OpIndex producer) {
  const auto tensor = static_cast<TensorIndex>(iteration_.tensors.size());
  iteration_.tensors.push_back({.storage = storage, .producer = producer});
  Storage& of = iteration_.storages[static_cast<std::size_t>(storage)];
  if (of.root == kNone) of.root = tensor;
  latest_[static_cast<std::size_t>(storage)] = tensor;
  return tensor;
}

TensorIndex IterationRecorder::name_of(Value& value) {
  if (value.recorded == kNone) {
    value.recorded = add_storage(value.size, false, value.stays);
    if (!value.is_home) copies_.push_back(value.recorded);
    iteration_.events.push_back({Event::Kind::create, add(value.recorded, kNone)});
  }
  return latest_[static_cast<std::size_t>(value.recorded)];
}

void IterationRecorder::begin(std::span<Value* const> values, Bytes others) {
  iteration_ = {};
  copies_.clear();
  latest_.clear();
  released_.clear();
  marked_.clear();
  readers_.clear();
  others_ = kNone;
  if (others.count > 0) {
    others_ = add_storage(others, false, true);
    iteration_.events.push_back({Event::Kind::create, add(others_, kNone)});
  }
  for (Value* value : values)
    if (value != nullptr) value->recorded = kNone;
  for (Value* value : values)
    if (value != nullptr && value->storage != nullptr) name_of(*value);
  present_ = static_cast<StorageIndex>(iteration_.storages.size());
}

std::vector<TensorIndex> IterationRecorder::names_read_by(const Producer& producer) const {
  std::vector<TensorIndex> names;
  for (const Operand& operand : producer.operands) {
    if (operand.value == nullptr || operand.value->size.count == 0) continue;
    if (operand.value->recorded == kNone) return {};
    const TensorIndex name = latest_[static_cast<std::size_t>(operand.value->recorded)];
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

void IterationRecorder::read_again(Op& op, const Producer& producer) {
  op.inputs_again = names_read_by(producer);
  if (!op.inputs_again.empty()) return;
  for (const TensorIndex output : op.outputs)
    iteration_.storages[static_cast<std::size_t>(iteration_.tensors[static_cast<std::size_t>(output)].storage)]
        .recomputable = false;
}

void IterationRecorder::ran(const CallNote& note, Producer* producer) {
  Op op{.name = std::string(note.schema.name), .time = note.time};
  for (Value* value : values_read(note.schema, note.inputs))
    if (value != nullptr) op.inputs.push_back(name_of(*value));
  const auto index = static_cast<OpIndex>(iteration_.ops.size());
  for (const ferry::Tensor& output : note.outputs) {
    Value* const value = output.defined() ? History::value_of(*output.impl()->storage) : nullptr;
    if (value == nullptr) continue;
    if (value->recorded == kNone) {
      const bool recomputable = producer != nullptr && value->producer.get() == producer;
      value->recorded = add_storage(value->size, recomputable, value->stays);
    }
    op.outputs.push_back(add(value->recorded, index));
  }
  if (producer != nullptr) {
    producer->recorded = index;
    if (producer->schema != &note.schema) read_again(op, *producer);
  }
  for (const TensorIndex input : op.reads(true))
    readers_[static_cast<std::size_t>(iteration_.tensors[static_cast<std::size_t>(input)].storage)].push_back(index);
  iteration_.ops.push_back(std::move(op));
  iteration_.events.push_back({Event::Kind::run, index});
}

void IterationRecorder::released(Value& value) {
  if (value.recorded == kNone) return;
  if (value.producer != nullptr) make_again(value.recorded);
  released_[static_cast<std::size_t>(value.recorded)] = true;
  iteration_.events.push_back({Event::Kind::release, value.recorded});
}

void IterationRecorder::make_again(StorageIndex storage) {
  const TensorIndex made = iteration_.storages[static_cast<std::size_t>(storage)].root;
  const OpIndex maker = iteration_.tensors[static_cast<std::size_t>(made)].producer;
  if (maker == kNone) return;
  Op& op = iteration_.ops[static_cast<std::size_t>(maker)];
  const auto storage_of = [&](TensorIndex t) {
    return static_cast<std::size_t>(iteration_.tensors[static_cast<std::size_t>(t)].storage);
  };
  const auto has = [](const std::vector<TensorIndex>& tensors, TensorIndex t) {
    return std::ranges::find(tensors, t) != tensors.end();
  };
  const auto is_used = [&](const Op& by) {
    return std::ranges::any_of(by.inputs,
                               [&](TensorIndex t) { return has(op.outputs, t) && !has(op.inputs_again, t); });
  };
  if (!has(op.inputs_again, made)) return;
  if (std::any_of(iteration_.ops.begin() + maker + 1, iteration_.ops.end(), is_used)) return;
  const bool is_unwritten = std::ranges::all_of(op.inputs, [&](TensorIndex input) {
    return std::ranges::find(readers_[storage_of(input)], maker) != readers_[storage_of(input)].end();
  });
  if (!is_unwritten) return;
  for (const TensorIndex t : std::exchange(op.inputs_again, {}))
    if (has(op.outputs, t)) iteration_.storages[storage_of(t)].recomputable = true;
}

void IterationRecorder::rewrote(Value& value) {
  if (value.recorded == kNone) return;
  iteration_.storages[static_cast<std::size_t>(value.recorded)].recomputable = false;
  mark_descendants(value.recorded);
  readers_[static_cast<std::size_t>(value.recorded)].clear();
}

// What lives and was computed from `storage`, by way of what does not live any more, cannot be computed again.
void IterationRecorder::mark_descendants(StorageIndex storage) {
  std::vector<StorageIndex> walk = {storage};
  while (!walk.empty()) {
    const auto s = static_cast<std::size_t>(walk.back());
    walk.pop_back();
    for (const OpIndex reader : readers_[s]) {
      for (const TensorIndex output : iteration_.ops[static_cast<std::size_t>(reader)].outputs) {
        const StorageIndex made = iteration_.tensors[static_cast<std::size_t>(output)].storage;
        const auto m = static_cast<std::size_t>(made);
        if (!released_[m]) {
          iteration_.storages[m].recomputable = false;
        } else if (!marked_[m]) {
          marked_[m] = true;
          walk.push_back(made);
        }
      }
    }
  }
}

IterationRecorder::Recorded IterationRecorder::end(std::span<Value* const> values) const {
  Recorded result{iteration_, std::vector<Value*>(iteration_.storages.size()), copies_, present_, others_};
  for (std::size_t s = 0; s < latest_.size(); ++s)
    if (!released_[s] && latest_[s] != kNone) result.iteration.kept.push_back(latest_[s]);
  for (Value* value : values) {
    if (value == nullptr || value->storage == nullptr || value->recorded == kNone) continue;
    result.values[static_cast<std::size_t>(value->recorded)] = value;
  }
  return result;
}

}  // namespace ferry::swap
