// What the driver gives the kernels of one launch besides their arguments: scratch memory, libraries, and where to note
// faults. It is the calling thread's while the launch is enqueued.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

#include "src/backends/cuda/faults.h"
#include "src/backends/cuda/workspace.h"
#include "src/device/kernel.h"

namespace ferry::cuda_backend {

class Libraries;

class LaunchScope {
 public:
  LaunchScope(cudaStream_t stream, Workspace& workspace, Libraries& libraries, Faults& faults, std::string_view op,
              const std::source_location& where);
  ~LaunchScope();
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

  // Of the calling thread. Requires: a launch is being enqueued.
  static LaunchScope& current();

  cudaStream_t stream() const { return stream_; }
  Libraries& libraries() const { return libraries_; }

  // Room for `count` elements of T until the launch has run. Throws: OutOfMemory.
  template <class T>
  T* scratch(std::int64_t count) {
    return reinterpret_cast<T*>(workspace_.take(static_cast<std::size_t>(count) * sizeof(T)));
  }
  // See Faults::expect.
  FaultSink fault_sink(std::string text);

 private:
  cudaStream_t stream_;
  Workspace& workspace_;
  Libraries& libraries_;
  Faults& faults_;
  std::string_view op_;
  std::source_location where_;
  LaunchScope* outer_;
};

// A sink for indices: "embedding: ids[3] = 12 is out of range for table [10, 4], which takes 0 to 9". `also` is added
// to what is legal, as " or -100".
FaultSink index_sink(const KernelContext& context, std::string_view name, std::string_view into, const Shape& shape,
                     std::int64_t lowest, std::int64_t bound, std::string_view also = {});
// A sink for integer division by 0.
FaultSink divisor_sink(const KernelContext& context, const TensorView& divisor);

// Throws: InvalidArgument: there is no kernel for that dtype.
[[noreturn]] void refuse_dtype(const KernelContext& context, DType dtype);

}  // namespace ferry::cuda_backend
