// The state behind the stand-in: memory, streams, events, failures and the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/fake_cudart/fake_cudart.h"

namespace fake_cuda {

// What a traced piece of work is: a kernel, or a copy between two kinds of memory.
struct Traced {
  bool copy = false;
  int device = 0;
  cudaMemoryType from = cudaMemoryTypeDevice, to = cudaMemoryTypeDevice;
  int from_device = 0, to_device = 0;
  std::size_t size = 0;
  std::uint32_t call = 0;  // CUPTI's number of the call that enqueued it
};

// Of one that was carried out.
struct Activity {
  Traced work;
  std::chrono::steady_clock::time_point begin, end;
};

}  // namespace fake_cuda

struct CUevent_st {
  int device = 0;
  CUstream_st* stream = nullptr;  // null: never recorded
  std::size_t position = 0;       // complete once the stream has done so much
  bool timed = false;
  std::chrono::steady_clock::time_point time{};
};

struct CUstream_st {
  struct Work {
    std::function<void()> run{};  // empty: a wait
    std::optional<fake_cuda::Traced> traced{};
    CUstream_st* awaited = nullptr;
    std::size_t position = 0;
  };
  std::deque<Work> pending{};
  std::size_t done = 0;
  int device = 0;

  std::size_t end() const { return done + pending.size(); }
};

namespace fake_cuda {

struct Block {
  std::size_t size;
  bool pinned;
  int device;
};

class Machine {
 public:
  static Machine& get();

  // Counts the call; the code that it was told to fail with, or that of work that failed.
  cudaError_t enter(const char* function);

  void push(CUstream_st* stream, std::function<void()> run, std::optional<Traced> traced = {});
  // A kernel's or copy's description for push; none while nothing is traced.
  std::optional<Traced> traced(Traced work);
  // Carries out work until `stream` has done `position` pieces, and what that depends on.
  void carry_out(CUstream_st* stream, std::size_t position);
  void carry_out_all();
  void run_front(CUstream_st* stream);

  cudaError_t allocate(void** pointer, std::size_t size, bool pinned);
  cudaError_t release(void* pointer, bool pinned);

  // A stream by its handle; null stands for the default stream.
  CUstream_st* stream_of(cudaStream_t handle);

  std::recursive_mutex mutex;
  int devices = 1;
  std::size_t capacity = std::size_t{512} << 20;
  std::size_t device_bytes = 0, pinned_bytes = 0;
  std::map<char*, Block> blocks;
  std::set<std::pair<int, int>> peers;  // which device may use which other's memory
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::vector<CUevent_st*> dead_events;  // work may still refer to them
  std::vector<CUstream_st*> dead_streams;
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, cudaError_t>> failures;
  std::vector<Launch> launches;
  std::map<const void*, std::string> kernel_names;
  cudaError_t fail_next_work = cudaSuccess, failed_work = cudaSuccess;
  CUstream_st default_stream;

  // CUPTI (cupti.cpp): whether work is traced, what was, and the pieces of work that calls were made for.
  bool tracing = false, blind = false;
  std::uint32_t traced_calls = 0;
  std::vector<Activity> activities;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> correlations;  // call, piece of work
};

// Of the calling thread.
int& current_device();
std::vector<std::uint64_t>& external_ids();

// Keeps the last error as the runtime does.
cudaError_t result(cudaError_t code);

}  // namespace fake_cuda
