// The state behind the stand-in: memory, streams, events, failures and the log.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/fake_cudart/fake_cudart.h"

struct CUevent_st {
  CUstream_st* stream = nullptr;  // null: never recorded
  std::size_t position = 0;       // complete once the stream has done so much
  bool timed = false;
  std::chrono::steady_clock::time_point time{};
};

struct CUstream_st {
  struct Work {
    std::function<void()> run{};  // empty: a wait
    CUstream_st* awaited = nullptr;
    std::size_t position = 0;
  };
  std::deque<Work> pending{};
  std::size_t done = 0;

  std::size_t end() const { return done + pending.size(); }
};

namespace fake_cuda {

struct Block {
  std::size_t size;
  bool pinned;
};

class Machine {
 public:
  static Machine& get();

  // Counts the call; the code that it was told to fail with, or that of work that failed.
  cudaError_t enter(const char* function);

  void push(CUstream_st* stream, std::function<void()> run);
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
};

// Keeps the last error as the runtime does.
cudaError_t result(cudaError_t code);

}  // namespace fake_cuda
