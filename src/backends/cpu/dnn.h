// oneDNN as the host kernels use it: one engine, per thread a stream, work buffers and caches of ready primitives.
//
// oneDNN runs on OpenMP threads of its own: everything here is for the launching thread, never inside parallel_for.
// Thread-safety: what is handed out belongs to the calling thread; threads share only the engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dnnl.hpp>

#include "src/device/kernel.h"

namespace ferry::cpu_backend::dnn {

const dnnl::engine& engine();

// Requires: a float type other than f64.
dnnl::memory::data_type data_type(DType type);

// Every oneDNN error becomes a DeviceError that names the op: those of calls that throw by way of make_plan(), those
// of calls that return a status by way of check().
[[noreturn]] void throw_error(std::string_view op, const char* what, dnnl_status_t status);
inline void check(std::string_view op, dnnl_status_t status) {
  if (status != dnnl_success) [[unlikely]]
    throw_error(op, "could not run a primitive", status);
}

// Which of a thread's buffers; all may be in use at once.
enum class Buffer : std::uint8_t { primitive, operand, conversion, tiles };

// At least `size` bytes, 64-byte aligned, the calling thread's until it asks for the same buffer again. Kept for reuse.
// Throws: OutOfMemory.
std::byte* work_buffer(Buffer buffer, std::size_t size);

// Limits the OpenMP threads of the calling thread's regions while it lives: waking a team costs more than small work.
// Has no effect for work of `flops` worth a team. Primitives are made for the threads they run on, so the scope must
// enclose lookup and run.
class TeamScope {
 public:
  explicit TeamScope(double flops);
  ~TeamScope();
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;

 private:
  int restore_ = 0;  // 0: nothing to restore
};

// What a primitive is made from, as a flat list of integers: equal keys mean the same primitive.
class Key {
 public:
  // Includes the number of OpenMP threads, which primitives depend on.
  explicit Key(std::uint32_t kind);

  Key& add(std::int64_t value) {
    FERRY_CHECK(size_ < kCapacity, InvalidArgument, "a primitive's key has more than {} values", kCapacity);
    values_[size_++] = value;
    return *this;
  }
  Key& add(const Dims& dims) {
    add(dims.rank());
    for (const std::int64_t value : dims) add(value);
    return *this;
  }
  Key& add(std::span<const std::int64_t> values) {
    for (const std::int64_t value : values) add(value);
    return *this;
  }
  // dtype, shape and strides
  Key& add(const TensorView& view);

  friend bool operator==(const Key& a, const Key& b) {
    return a.size_ == b.size_ && std::memcmp(a.values_.data(), b.values_.data(), a.size_ * sizeof(std::int64_t)) == 0;
  }
  std::size_t hash() const noexcept;

 private:
  static constexpr std::size_t kCapacity = 64;
  std::size_t size_ = 0;
  std::array<std::int64_t, kCapacity> values_;
};

enum class Direction : std::uint8_t { in, out };

// A primitive with its arguments, ready to run on data of the described layout. Where the primitive wants another
// layout than the data has, the data is reordered through the thread's work buffer on each run.
class Plan {
 public:
  struct Argument {
    int id;  // DNNL_ARG_…
    Direction direction;
    dnnl::memory::desc given;   // layout of the caller's data
    dnnl::memory::desc wanted;  // layout the primitive reads or writes
  };

  // No primitive: oneDNN has no implementation for the case on this CPU.
  Plan() = default;
  Plan(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, std::span<const Argument> arguments);

  bool supported() const { return static_cast<bool>(primitive_); }

  // Data of each argument, in the order of the constructor's list. Requires: supported().
  // Throws: DeviceError, OutOfMemory.
  void run(std::string_view op, std::span<void* const> data);

 private:
  struct Reorder {
    std::size_t argument;
    Direction direction;
    dnnl::primitive primitive;
    dnnl::memory given, wanted;
    std::size_t offset;  // of the wanted layout in the work buffer
  };
  void reorder(std::string_view op, const Reorder& step, void* data) const;
  void execute(std::string_view op, const dnnl::primitive& primitive, std::span<const dnnl_exec_arg_t> arguments) const;

  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;  // the arguments as the primitive sees them
  std::vector<dnnl_exec_arg_t> execute_args_;
  std::vector<bool> reordered_;  // argument i lives in the work buffer, not in the caller's memory
  std::vector<Reorder> reorders_;
  dnnl::memory scratchpad_;
  std::size_t scratchpad_offset_ = 0, buffer_size_ = 0;
};

// The least recently used of more than `kCapacity` values is dropped.
template <class Value>
class Cache {
 public:
  // The value made for an equal key, or make() kept from now on. Valid until the next call.
  template <class Make>
  Value& get(const Key& key, const Make& make) {
    const auto found = index_.find(&key);
    if (found != index_.end()) {
      if (found->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->second;
    }
    entries_.emplace_front(key, make());
    index_.emplace(&entries_.front().first, entries_.begin());
    if (entries_.size() > kCapacity) {
      index_.erase(&entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }
  std::size_t size() const { return entries_.size(); }

  static constexpr std::size_t kCapacity = 512;

 private:
  using Entry = std::pair<Key, Value>;
  struct Hash {
    std::size_t operator()(const Key* key) const noexcept { return key->hash(); }
  };
  struct Equal {
    bool operator()(const Key* a, const Key* b) const noexcept { return *a == *b; }
  };

  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<const Key*, typename std::list<Entry>::iterator, Hash, Equal> index_;
};

// The calling thread's plans.
Cache<Plan>& plans();

// make(), or a plan without primitive where oneDNN has no implementation. Throws: DeviceError for other failures.
template <class Make>
Plan make_plan(std::string_view op, const Make& make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return {};
    throw_error(op, error.what(), error.status);
  }
}

// Scratchpads come from the work buffer instead of an allocation of oneDNN a primitive.
dnnl::primitive_attr user_scratchpad();

}  // namespace ferry::cpu_backend::dnn
