// Runtime: owns the devices, allocators, clock and recorder that ops use.
//
//   Runtime runtime;                                   // the CPU and CUDA device 0, else the simulated GPU
//   Runtime runtime{{.device = "sim:v100-16gb"}};
//
// Creating one makes it the creating thread's current runtime until it is destroyed; threads without one use the
// process's default, made at first use. Tensors keep the devices they live on alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include <ferry/device.h>
#include <ferry/units.h>

namespace ferry {

// How an op's input gets to the device where the op runs.
enum class CopyMode : std::uint8_t {
  synchronous,  // drain the stream, copy, wait
  staged,       // host→device asynchronously through a pinned ring; device→host waits when the CPU reads the value
};

// In which order a simulated GPU carries out queued work: issue order, or a legal one chosen by the seed.
struct ExecutionOrderOption {
  bool adversarial = false;
  std::uint64_t seed = 0;
};

struct RuntimeOptions {
  // Where ops run by default and what `gpu` means:
  //   ""/"gpu"            CUDA device 0 if the CUDA plug-in loads and finds one, else the simulated GPU sim:rtx2080ti
  //   "cpu"               the CPU; there is no GPU
  //   "sim:NAME"          a simulated GPU from a preset
  //   "sim:FILE.json"     a simulated GPU from a spec file
  //   "cuda", "cuda:N"    that CUDA device, or an error
  // A comma-separated list makes gpu:0, gpu:1, … The environment variable FERRY_DEVICE is used when this is empty.
  std::string device{};
  // Capacity of each simulated GPU; 0: the spec's.
  Bytes device_memory{};
  CopyMode copy_mode = CopyMode::staged;
  // false: timing only. Shapes, costs and allocations run without data; reading a value gives 0 and is counted.
  bool values = true;
  ExecutionOrderOption order{};
  // Reports unordered accesses and uses after free (see docs/architecture.md). Also on with FERRY_CHECK_ORDER=1.
  bool check_ordering = false;
  // With a simulated GPU: CPU ops take the time they really took instead of the model's, so that runs differ.
  bool measured_host_time = false;
  // JSON rules that act like guards (docs/placement.md). FERRY_PLACEMENT is used when this is empty.
  std::string placement_file{};
  std::uint64_t seed = 0;  // of uniform() and normal()
};

struct DeviceDescription {
  Device device;
  std::string name;  // "sim:rtx2080ti"
  std::string description;
  Bytes capacity;
  bool simulated = false;
};

struct MemoryStats {
  Bytes allocated, active, reserved, peak_allocated, peak_reserved, largest_free, capacity;
  std::int64_t allocations = 0, driver_allocations = 0;
  double fragmentation = 0;  // 1 - largest free cached block / free cached bytes
  Bytes pinned_allocated{}, pinned_reserved{};
};

class RuntimeCore;

class Runtime {
 public:
  // Throws: InvalidArgument (unknown device, spec or option), ParseError (spec or placement file), DeviceError.
  explicit Runtime(RuntimeOptions options = {});
  // Waits for the devices. Tensors may outlive the Runtime.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // The CPU first, then the GPUs by index.
  std::vector<DeviceDescription> devices() const;
  Device default_device() const;
  // Throws: InvalidArgument for a device this runtime does not have.
  MemoryStats memory_stats(Device device) const;
  void reset_peak_memory(Device device);
  // Returns cached memory that nothing uses to the device.
  void empty_cache(Device device);
  // Waits for all work; throws what queued work raised.
  void synchronize();
  // The host's time of the calling thread: virtual when a GPU is simulated.
  Nanoseconds now() const;
  bool virtual_time() const;
  // Bytes that tensors hold, on all devices.
  Bytes live_bytes() const;
  void manual_seed(std::uint64_t seed);

  // For the library's own sources.
  explicit Runtime(std::shared_ptr<RuntimeCore> core);
  const std::shared_ptr<RuntimeCore>& core() const { return core_; }

 private:
  std::shared_ptr<RuntimeCore> core_;
};

// Wait for all work of the calling thread's runtime.
void synchronize();

}  // namespace ferry
