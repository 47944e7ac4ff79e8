// What a memory budget knows of the bytes of one storage, and of the call that they can be computed from again.
//
// A Value is the contents of a storage between two writes. It is resident while the storage has a replica on the
// budget's device, and absent when there is no valid replica at all: then its Producer makes it again. A Value outlives
// its storage while others may have to be computed from it.
//
// Ownership: a Value lives while its storage does or a Producer reads it, a Producer while one of its results does. No
// counts are kept for that: storage and consumers say it. Long chains are released without recursion: values that
// nothing needs any more are put into a Graveyard. Not thread-safe: the engine's mutex guards all.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "src/ops/op_schema.h"
#include "src/tensor/storage.h"
#include "swap/engine/spill_file.h"
#include "swap/iteration.h"

namespace ferry::swap {

struct Producer;
class Engine;

struct Operand;
struct Graveyard;

struct Value final : StorageWatch {
  Engine& engine;
  Graveyard& graveyard;
  StorageIndex index = kNone;  // in the engine's tables
  Bytes size{};
  ferry::Storage* storage = nullptr;    // whose contents these are; null once it died or was written
  std::shared_ptr<ferry::Storage> own;  // holds the bytes then, if anything does
  std::shared_ptr<Producer> producer;   // null: cannot be computed again; shared by the results of a call
  struct Consumer {
    Producer* producer;
    std::size_t operand;
  };
  std::vector<Consumer> consumers;               // calls that read it
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

  Value(Engine& the_engine, Graveyard& the_graveyard, Bytes bytes);
  ~Value() override;
  void released(ferry::Storage& dying) noexcept override;

  ferry::Storage* bytes() const { return storage != nullptr ? storage : own.get(); }
  bool is_needed() const { return storage != nullptr || !consumers.empty(); }
};

struct Operand {
  bool given = false;
  Value* value = nullptr;    // null: only shape and type are read
  std::size_t consumer = 0;  // its place in value->consumers
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  DType dtype = DType::f32;
  Device device;
};

// Values to be destroyed next, each once, and the memory of lists of the dead for those who come after them.
struct Graveyard {
  static constexpr std::size_t kSpare = 256;

  std::vector<Value*> dead;
  std::vector<std::vector<Operand>> operands;
  std::vector<std::vector<Value::Consumer>> consumers;

  template <class T>
  static std::vector<T> take(std::vector<std::vector<T>>& spare) {
    if (spare.empty()) return {};
    std::vector<T> list = std::move(spare.back());
    spare.pop_back();
    return list;
  }
  template <class T>
  static void put(std::vector<std::vector<T>>& spare, std::vector<T>& list) {
    if (list.capacity() == 0 || spare.size() >= kSpare) return;
    list.clear();
    spare.push_back(std::move(list));
  }
};

struct Producer {
  static constexpr std::size_t kMostResults = ops::InferContext::kMaxOutputs;

  Graveyard& graveyard;
  const ops::OpSchema* schema = nullptr;
  Attributes attributes;
  std::source_location where;
  Device device;
  Nanoseconds time{};  // of the device, measured
  OpIndex recorded = kNone;
  std::vector<Operand> operands;
  std::array<Value*, kMostResults> results{};  // null: none, or gone
  std::size_t result_count = 0;

  explicit Producer(Graveyard& the_graveyard)
      : graveyard(the_graveyard), operands(Graveyard::take(the_graveyard.operands)) {}
  ~Producer();

  // The operand reads `value` from now on.
  void read(std::size_t operand, Value& value);
};

}  // namespace ferry::swap
