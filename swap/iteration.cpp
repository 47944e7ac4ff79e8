#include "swap/iteration.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace ferry::swap {

StorageIndex IterationBuilder::add_storage(Storage storage) {
  iteration_.storages.push_back(storage);
  storage_references_.push_back(0);
  return static_cast<StorageIndex>(iteration_.storages.size()) - 1;
}

TensorIndex IterationBuilder::add_tensor(Tensor tensor) {
  const auto index = static_cast<TensorIndex>(iteration_.tensors.size());
  Storage& storage = iteration_.storages[static_cast<std::size_t>(tensor.storage)];
  if (storage.root == kNone) storage.root = index;
  ++storage_references_[static_cast<std::size_t>(tensor.storage)];
  tensor_references_.push_back(1);
  iteration_.tensors.push_back(std::move(tensor));
  return index;
}

TensorIndex IterationBuilder::add_input(std::string name, Bytes size, Residency residency) {
  const StorageIndex storage =
      add_storage({.size = size, .pinned = residency == Residency::pinned, .recomputable = false});
  const TensorIndex tensor = add_tensor({.name = std::move(name), .storage = storage});
  iteration_.events.push_back({Event::Kind::create, tensor});
  return tensor;
}

TensorIndex IterationBuilder::run(std::string name, Nanoseconds time, std::vector<TensorIndex> inputs,
                                  std::vector<Output> outputs) {
  const auto op = static_cast<OpIndex>(iteration_.ops.size());
  const auto first = static_cast<TensorIndex>(iteration_.tensors.size());
  std::vector<TensorIndex> made;
  for (Output& output : outputs) {
    const bool is_view = output.view_of != kNone;
    const StorageIndex storage =
        is_view ? iteration_.tensors[static_cast<std::size_t>(output.view_of)].storage
                : add_storage({.size = output.size, .recomputable = output.recompute == Recompute::yes});
    made.push_back(add_tensor({.name = std::move(output.name), .storage = storage, .producer = op}));
  }
  std::vector<TensorIndex> distinct;
  for (const TensorIndex input : inputs)
    if (std::ranges::find(distinct, input) == distinct.end()) distinct.push_back(input);
  iteration_.ops.push_back(
      {.name = std::move(name), .time = time, .inputs = std::move(distinct), .outputs = std::move(made)});
  iteration_.events.push_back({Event::Kind::run, op});
  return first;
}

void IterationBuilder::reads_again(std::vector<TensorIndex> inputs) {
  iteration_.ops.back().inputs_again = std::move(inputs);
}

void IterationBuilder::retain(TensorIndex tensor) {
  const auto t = static_cast<std::size_t>(tensor);
  FERRY_CHECK(tensor_references_[t] > 0, InvalidArgument, "tensor '{}' is retained after its release",
              iteration_.tensors[t].name);
  ++tensor_references_[t];
  ++storage_references_[static_cast<std::size_t>(iteration_.tensors[t].storage)];
}

void IterationBuilder::release(TensorIndex tensor) {
  const auto t = static_cast<std::size_t>(tensor);
  FERRY_CHECK(tensor_references_[t] > 0, InvalidArgument, "tensor '{}' is released more often than referenced",
              iteration_.tensors[t].name);
  --tensor_references_[t];
  const StorageIndex storage = iteration_.tensors[t].storage;
  if (--storage_references_[static_cast<std::size_t>(storage)] == 0)
    iteration_.events.push_back({Event::Kind::release, storage});
}

bool IterationBuilder::is_pinned(TensorIndex tensor) const {
  const StorageIndex storage = iteration_.tensors[static_cast<std::size_t>(tensor)].storage;
  return iteration_.storages[static_cast<std::size_t>(storage)].pinned;
}

Iteration IterationBuilder::build() && {
  for (std::size_t t = 0; t < tensor_references_.size(); ++t)
    if (tensor_references_[t] > 0) iteration_.kept.push_back(static_cast<TensorIndex>(t));
  return std::move(iteration_);
}

Unconstrained unconstrained(const Iteration& iteration) {
  Unconstrained result;
  Bytes used{};
  const auto size_of = [&](TensorIndex tensor) {
    const Storage& storage =
        iteration.storages[static_cast<std::size_t>(iteration.tensors[static_cast<std::size_t>(tensor)].storage)];
    return storage.root == tensor ? storage.size : Bytes{0};
  };
  for (const Event& event : iteration.events) {
    const auto index = static_cast<std::size_t>(event.index);
    switch (event.kind) {
      case Event::Kind::create:
        used += size_of(event.index);
        break;
      case Event::Kind::run:
        result.time += iteration.ops[index].time;
        for (const TensorIndex output : iteration.ops[index].outputs) used += size_of(output);
        break;
      case Event::Kind::release:
        if (!iteration.storages[index].pinned) used -= iteration.storages[index].size;
        break;
    }
    result.peak = std::max(result.peak, used);
  }
  return result;
}

std::uint64_t fingerprint(const Iteration& iteration) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, a word at a time
  const auto add = [&hash](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3;
    hash ^= hash >> 29;
  };
  add(static_cast<std::int64_t>(iteration.events.size()));
  for (const Storage& storage : iteration.storages) {
    add(storage.size.count);
    add(storage.pinned * 2 + storage.recomputable);
  }
  for (const Tensor& tensor : iteration.tensors) add(tensor.storage);
  for (const Op& op : iteration.ops) {
    add(static_cast<std::int64_t>(op.inputs.size()));
    for (const TensorIndex input : op.inputs) add(input);
    for (const TensorIndex output : op.outputs) add(output);
    for (const TensorIndex input : op.inputs_again) add(input);
  }
  for (const Event& event : iteration.events) {
    add(static_cast<std::int64_t>(event.kind));
    add(event.index);
  }
  for (const TensorIndex tensor : iteration.kept) add(tensor);
  return hash;
}

}  // namespace ferry::swap
