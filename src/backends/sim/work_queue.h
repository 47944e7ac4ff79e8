// Queued work of a simulated GPU and the order in which its values are computed. Work of one stream is carried out in
// order; an event wait holds its stream back until the awaited work was carried out; nothing else is promised.
//
// Thread-safety: none, the driver locks. Kernels run in the thread that needs their values.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "src/backends/sim/sim_driver.h"

namespace ferry::sim {

// The first `count` pieces of work ever enqueued on a stream.
struct Position {
  std::size_t stream = 0;
  std::uint64_t count = 0;
};

// Owns everything that a kernel reads but device memory.
struct KernelWork {
  Kernel kernel;
  std::string op;
  std::vector<TensorView> views;  // inputs, then outputs
  std::size_t inputs;
  Attributes attributes;
  std::vector<std::unique_ptr<std::byte[]>> host_inputs;  // arguments in host memory are read at launch
  std::source_location where;
};

struct CopyWork {
  void* destination;
  const void* source;
  std::size_t size;
  std::unique_ptr<std::byte[]> staging;  // holds the source when it was pageable
};

struct EventWait {
  Position awaited;
};

using Work = std::variant<KernelWork, CopyWork, EventWait>;

class WorkQueue {
 public:
  explicit WorkQueue(ExecutionOrder order) : order_(order), random_(order.seed) {}

  void add_stream() { streams_.emplace_back(); }

  void push(StreamId stream, Work work);
  Position end_of(StreamId stream) const;
  bool passed(Position position) const { return streams_[position.stream].done >= position.count; }

  // Carries out what must have happened at `position`, and perhaps more.
  void carry_out(Position position);
  void carry_out_all();

  // The failed work that was issued first among all carried out since the last call; null: none failed.
  std::exception_ptr take_error();
  // For errors of calls that cannot throw themselves.
  void keep_error(std::exception_ptr error);

 private:
  struct Entry {
    std::uint64_t number;  // in issue order over all streams
    Work work;
  };
  struct Stream {
    std::deque<Entry> pending;
    std::uint64_t done = 0;
  };

  bool ready(std::size_t stream) const;
  std::size_t oldest() const;
  std::size_t random_ready();
  std::size_t required_for(std::size_t stream) const;
  void run_front(std::size_t stream);
  void run(KernelWork& work, std::uint64_t number);
  void keep_error(std::exception_ptr error, std::uint64_t number);

  ExecutionOrder order_;
  std::mt19937_64 random_;
  std::deque<Stream> streams_;
  std::uint64_t issued_ = 0;
  std::size_t pending_ = 0;
  std::exception_ptr error_;
  std::uint64_t error_number_ = 0;
};

}  // namespace ferry::sim
