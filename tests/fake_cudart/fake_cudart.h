// What tests ask of the stand-in for the CUDA runtime. It is linked in place of libcudart: device memory is host memory
// of a fixed capacity, streams are queues whose work is carried out only when something waits for it, and then no more
// than that wait needs, so that a missing wait shows as a wrong value. Kernels that nvcc compiled are logged, not run;
// functions given to cudaLaunchHostFunc run in their stream's order. Streams, events and memory belong to the device
// that was current when they were made, and are refused where the runtime would refuse them.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fake_cuda {

struct Launch {
  std::string kernel;  // mangled name
  dim3 grid, block;
};

// Forgets calls, launches and failures, and sets a machine of `devices` devices with `capacity` bytes each. Requires:
// no device memory in use.
void reset(int devices = 1, std::size_t capacity = std::size_t{512} << 20);

// The n-th call of `function` from now on (1: the next) fails with `code`, without effect.
void fail(const std::string& function, int n, cudaError_t code);
// The next work that is carried out fails: every wait reports `code` from then on, as after a fault of a real kernel.
void fail_work(cudaError_t code);

// CUPTI hands over no records until reset().
void blind_cupti();

// Calls of a function of the runtime since reset().
int calls(const std::string& function);
std::vector<Launch> launches();

std::size_t device_bytes();  // in use
std::size_t pinned_bytes();  // in use
int live_streams();
int live_events();

}  // namespace fake_cuda
