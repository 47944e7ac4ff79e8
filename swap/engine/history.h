// The values of a running program and the calls they came from: what can be computed again from what. Knows no memory
// and no policy. Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/ops/invoke.h"
#include "swap/engine/value.h"
#include "swap/neighborhood.h"

namespace ferry::swap {

// A call that ran, as the runtime tells of it.
struct CallNote {
  const ops::OpSchema& schema;
  ops::TensorPointers inputs;
  const Attributes& attributes;  // as infer got them
  std::source_location where;
  Device device;
  Nanoseconds time{};
  std::span<const ferry::Tensor> outputs;
};

class History {
 public:
  // So many values in a row without a storage may lead to one; beyond it history is cut, so that a loop that carries
  // state does not grow.
  static constexpr std::int32_t kLongestChain = 100;

  explicit History(Engine& engine) : engine_(engine) {}
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // The storage's value; made when there is none.
  Value& track(ferry::Storage& storage);
  static Value* value_of(const ferry::Storage& storage) { return static_cast<Value*>(storage.watch()); }
  Value* at(StorageIndex index) const { return values_[static_cast<std::size_t>(index)]; }
  std::span<Value* const> values() const { return values_; }  // null where an index is free
  std::int64_t size() const { return count_; }
  const Neighborhood& neighborhood() const { return neighborhood_; }
  // Until this is called nobody asks for the neighbourhood, and it is not kept.
  void keep_neighborhood();
  // Destroys what died. Called when no reference to a value is in use.
  void bury() noexcept;
  // Its storage is gone: the value dies, unless it is read by what may run again.
  void lose_storage(Value& value) {
    value.storage = nullptr;
    if (!value.is_needed()) graveyard_.dead.push_back(&value);
  }

  // The outputs' values know from now on what they are computed from again: by the call that ran, or by one that makes
  // the same from less. Returns what makes the first of them that is large; null: none of them is known. Valid until
  // one of them changes.
  const std::shared_ptr<Producer>& record(const CallNote& note);
  // Absent values with a storage that only a computation from `value` gives back.
  std::vector<Value*> absent_that_need(const Value& value) const;
  // `value` will not be there any more: what was computed from it can not be computed again.
  // Requires: absent_that_need(value) is empty.
  void cut(Value& value);
  // Its storage is about to be written. If others may have to be computed from the old contents, and these can be
  // computed, they become a value of their own. Requires: absent_that_need is empty if value.producer is null.
  void rewrite(Value& value);
  // Values without a storage and a producer whose bytes are still there: others can be computed only with them.
  std::span<Value* const> unrepeatable() const { return unrepeatable_; }
  void add_unrepeatable(Value& value);
  // The storage died: how many values in a row lead to it now.
  void measure_chain(Value& value) const;

  void mark_evicted(Value& value);
  void mark_restored(Value& value);

  // By ~Value.
  void forget(Value& value) noexcept;

 private:
  using Results = std::span<const ferry::Tensor>;

  const std::shared_ptr<Producer>& record_batch_norm(const CallNote& note);
  const std::shared_ptr<Producer>& record_normalized_relu(const CallNote& note, const Producer& before);
  // Null: it is not the relu of a normalisation, or not of all of it.
  const Producer* normalization_before(const CallNote& note) const;
  // The values know what makes them. Results that are undefined, or whose storages are not known, are none.
  inline const std::shared_ptr<Producer>& give(std::shared_ptr<Producer>& producer, Results results);
  Value& make_value(Bytes size);
  StorageIndex take_index(Value& value);
  void add_to_neighborhood(const Producer& producer);
  void give_up_index(Value& value) noexcept;
  static void leave_producer(Value& value) noexcept;

  Engine& engine_;
  Graveyard graveyard_;
  Neighborhood neighborhood_;
  bool keeps_neighborhood_ = false;
  std::vector<StorageIndex> reads_, writes_;  // of the call that is recorded
  std::vector<Value*> values_;
  std::vector<StorageIndex> free_;
  std::int64_t count_ = 0;
  std::vector<Value*> unrepeatable_;
  mutable std::vector<const Value*> walk_;
};

// Whether the bytes are anywhere.
inline bool has_bytes(const Value& value) {
  if (value.file != SpillFile::kNowhere) return true;
  ferry::Storage* const bytes = value.bytes();
  return bytes != nullptr && bytes->find_valid() != nullptr;
}

}  // namespace ferry::swap
