// What a memory budget knows of the bytes of one storage, and of the call that they can be computed from again.
//
// A Value is the contents of a storage between two writes. It is resident while the storage has a replica on the
// budget's device, and absent when there is no valid replica at all: then its Producer makes it again. A Value outlives
// its storage while others may have to be computed from it.
//
// Ownership: a Value lives while its storage does or a Producer reads it, a Producer while one of its results does. No
// counts are kept for that: storage and readers say it. Long chains are released without recursion: values that
// nothing needs any more are put into a Graveyard. Not thread-safe: the engine's mutex guards all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/check.h"
#include "src/ops/op_schema.h"
#include "src/tensor/storage.h"
#include "src/tensor/tensor_impl.h"
#include "swap/engine/spill_file.h"
#include "swap/iteration.h"

namespace ferry::swap {

struct Producer;
class Engine;
struct Operand;

struct Value final : StorageWatch {
  Engine& engine;
  StorageIndex index = kNone;  // in the engine's tables
  Bytes size{};
  ferry::Storage* storage = nullptr;             // whose contents these are; null once it died or was written
  std::shared_ptr<ferry::Storage> own;           // holds the bytes then, if anything does
  std::shared_ptr<Producer> producer;            // null: cannot be computed again; shared by the results of a call
  Operand* readers = nullptr;                    // in calls that may run again, the latest first
  std::int32_t locks = 0;                        // of calls that use it now: it stays on the device
  std::int32_t holds = 0;                        // of those, the ones of frames
  std::int32_t pins = 0;                         // of those, the ones that keep its address: it does not move either
  std::int32_t chain = 0;                        // values without a storage in a row that lead to it
  bool is_evicted = false;                       // as the neighbourhood counts: it would have to be computed again
  bool is_leaving = false;                       // its device memory is given back when something needs room
  bool is_home = true;                           // the device is where it was made; else a copy of what lives elsewhere
  bool stays = false;                            // never leaves the device
  SpillFile::Offset file = SpillFile::kNowhere;  // where its bytes are on disk
  Nanoseconds last_access{};
  StorageIndex recorded = kNone;  // its place in the iteration that is being recorded
  StorageIndex planned = kNone;   // and in the plan that is followed
  void* place = nullptr;          // where its bytes should be on the device, by that plan; null: anywhere

  Value(Engine& the_engine, Bytes bytes);
  ~Value() override;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  void released(ferry::Storage& dying) noexcept override;

  ferry::Storage* bytes() const { return storage != nullptr ? storage : own.get(); }
  bool is_needed() const { return storage != nullptr || readers != nullptr; }
};

// What a call read. Stays where it is while it reads a value, whose readers are a list through these. Of the memory for
// shape and strides no more is touched than they take: every call under a budget notes its operands.
struct Operand {
  Value* value = nullptr;  // null: only shape and type are read
  Producer* reader = nullptr;
  Operand* next = nullptr;  // of those that read the value
  Operand* previous = nullptr;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  Device device;
  bool given = false;

  // Of an input that was left out. NOLINTNEXTLINE(modernize-use-equals-default): the extents' memory is left as it is.
  Operand() noexcept {}
  explicit Operand(const TensorImpl& tensor)
      : offset(tensor.offset), dtype(tensor.dtype), device(tensor.device), given(true), rank_(tensor.shape.rank()) {
    for (int i = 0; i < rank_; ++i) {
      extents_[static_cast<std::size_t>(i)] = tensor.shape[i];
      extents_[rank() + static_cast<std::size_t>(i)] = tensor.strides[i];
    }
  }
  // As the other, but it reads no value.
  Operand(const Operand& other) noexcept
      : offset(other.offset), dtype(other.dtype), device(other.device), given(other.given), rank_(other.rank_) {
    std::copy_n(other.extents_.begin(), 2 * rank(), extents_.begin());
  }
  Operand& operator=(const Operand&) = delete;

  // It reads a value from now on, for `call`; and not any more.
  void read(Value& read_value, Producer& call) noexcept {
    value = &read_value;
    reader = &call;
    previous = nullptr;
    next = read_value.readers;
    if (next != nullptr) next->previous = this;
    read_value.readers = this;
  }
  void leave() noexcept {
    if (next != nullptr) next->previous = previous;
    (previous == nullptr ? value->readers : previous->next) = next;
  }

  Shape shape() const { return Shape(std::span(extents_).first(rank())); }
  Strides strides() const { return Strides(std::span(extents_).subspan(rank(), rank())); }

 private:
  std::size_t rank() const { return static_cast<std::size_t>(rank_); }

  int rank_ = 0;
  std::array<std::int64_t, std::size_t{2} * kMaxRank> extents_;  // shape, then strides
};

// Values to be destroyed next, each once, and the memory of lists of the dead for those who come after them.
struct Graveyard {
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t kSpare = 0;  // so that a use after free is found
#else
  static constexpr std::size_t kSpare = 256;
#endif

  std::vector<Value*> dead;
  std::vector<std::vector<Operand>> operands;

  std::vector<Operand> take_operands() {
    if (operands.empty()) return {};
    std::vector<Operand> list = std::move(operands.back());
    operands.pop_back();
    return list;
  }
  void put_operands(std::vector<Operand>& list) {
    if (list.capacity() == 0 || operands.size() >= kSpare) return;
    list.clear();
    operands.push_back(std::move(list));
  }
};

struct Producer {
  static constexpr std::size_t kMostResults = ops::InferContext::kMaxOutputs;

  Graveyard& graveyard;
  const ops::OpSchema* schema = nullptr;
  std::source_location where;
  Nanoseconds time{};  // of the device, measured
  Device device;
  OpIndex recorded = kNone;
  std::vector<Operand> operands;
  std::array<Value*, kMostResults> results{};  // null: none, or gone
  std::size_t result_count = 0;
  Attributes attributes;

  // Of a call with so many operands at most.
  Producer(Graveyard& the_graveyard, std::size_t operand_count)
      : graveyard(the_graveyard), operands(the_graveyard.take_operands()) {
    operands.reserve(operand_count);
  }
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  // `of`: as for a constructor of Operand. Requires: it is one of those that were announced.
  template <class... Of>
  Operand& add_operand(const Of&... of) {
    FERRY_CHECK(operands.size() < operands.capacity(), Error, "{} has more operands than announced", schema->name);
    return operands.emplace_back(of...);
  }
};

}  // namespace ferry::swap
