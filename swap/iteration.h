// One recorded iteration of a training loop as plain data: what ran in which order, on which storages, and when each
// storage's last reference went. Policies are replayed on it and plans are made for it.
//
// A storage is memory, a tensor is a name for (a view of) a storage that one op made. Values never change: an op that
// works in place is recorded as one that makes fresh outputs. All indices are dense and count from 0 in order of
// creation, so that inputs of an op always have smaller tensor indices than its outputs. An op that runs again may read
// other tensors than the first time, such as results of its own that are still there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ferry/units.h>

namespace ferry::swap {

using StorageIndex = std::int32_t;
using TensorIndex = std::int32_t;
using OpIndex = std::int32_t;
constexpr std::int32_t kNone = -1;

struct Storage {
  Bytes size{};
  bool pinned = false;       // stays on the device from its creation to the end
  bool recomputable = true;  // its producers may run again; false for inputs, in-place results, random state
  TensorIndex root = kNone;  // the tensor that made it
};

struct Tensor {
  std::string name{};
  StorageIndex storage = kNone;
  OpIndex producer = kNone;  // kNone: an input of the iteration
};

struct Op {
  std::string name{};
  Nanoseconds time{};                  // measured, or on the virtual clock
  std::vector<TensorIndex> inputs{};   // each once
  std::vector<TensorIndex> outputs{};  // views of inputs among them
  // What it reads when it runs again, each once; none: the inputs. It takes no longer then.
  std::vector<TensorIndex> inputs_again{};

  const std::vector<TensorIndex>& reads(bool again) const {
    return again && !inputs_again.empty() ? inputs_again : inputs;
  }
};

// What the program did, in its order.
struct Event {
  enum class Kind : std::uint8_t {
    create,   // index: an input tensor becomes resident
    run,      // index: an op
    release,  // index: a storage lost its last reference; it may still be needed to recompute others
  };
  Kind kind = Kind::run;
  std::int32_t index = kNone;
};

struct Iteration {
  std::vector<Storage> storages{};
  std::vector<Tensor> tensors{};
  std::vector<Op> ops{};
  std::vector<Event> events{};
  std::vector<TensorIndex> kept{};  // still referenced at the end: must be resident then
};

// Builds an Iteration and counts references: each tensor starts with one, and so does each name a program gives it.
class IterationBuilder {
 public:
  enum class Recompute : bool { no, yes };
  enum class Residency : bool { may_leave, pinned };
  // An output of an op: memory of its own, or a view of the storage of one of the op's inputs.
  struct Output {
    std::string name{};
    Bytes size{};
    TensorIndex view_of = kNone;
    Recompute recompute = Recompute::yes;
  };

  TensorIndex add_input(std::string name, Bytes size, Residency residency);
  // Returns the index of the first output; the others follow. Requires: inputs and views exist and are referenced.
  TensorIndex run(std::string name, Nanoseconds time, std::vector<TensorIndex> inputs, std::vector<Output> outputs);
  // The last op reads these when it runs again. Requires: they exist; it makes no views.
  void reads_again(std::vector<TensorIndex> inputs);
  void retain(TensorIndex tensor);
  // Requires: the tensor is referenced.
  void release(TensorIndex tensor);
  std::int32_t references(TensorIndex tensor) const { return tensor_references_[static_cast<std::size_t>(tensor)]; }
  bool is_pinned(TensorIndex tensor) const;
  const Iteration& so_far() const { return iteration_; }

  Iteration build() &&;

 private:
  StorageIndex add_storage(Storage storage);
  TensorIndex add_tensor(Tensor tensor);

  Iteration iteration_;
  std::vector<std::int32_t> tensor_references_, storage_references_;
};

// Peak of memory and sum of op times when nothing has to leave.
struct Unconstrained {
  Bytes peak{};
  Nanoseconds time{};
};
Unconstrained unconstrained(const Iteration& iteration);

// A number that two iterations share only if ops, storages and order agree; times and names do not count.
std::uint64_t fingerprint(const Iteration& iteration);

}  // namespace ferry::swap
