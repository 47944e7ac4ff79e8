// The functions of the CUDA runtime that the plug-in calls.
#include <cstring>
#include <memory>

#include "tests/fake_cudart/machine.h"

using fake_cuda::Machine;
using fake_cuda::result;

namespace {

thread_local cudaError_t last_error = cudaSuccess;

// Locks the machine, counts the call and runs it unless it was told to fail.
template <class Call>
cudaError_t call(const char* function, const Call& body) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  if (const cudaError_t code = machine.enter(function); code != cudaSuccess) return result(code);
  return result(body(machine));
}

// Work that waits for a stream reports what went wrong in it.
cudaError_t waited(Machine& machine) { return machine.failed_work; }

bool is_complete(const CUevent_st& event) { return event.stream == nullptr || event.stream->done >= event.position; }

// Asked before a call is counted: a program's own question would be counted as well.
cudaPointerAttributes attributes_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  cudaPointerGetAttributes(&attributes, pointer);
  return attributes;
}

fake_cuda::Traced copy_of(const CUstream_st& stream, const cudaPointerAttributes& from, const cudaPointerAttributes& to,
                          std::size_t size) {
  return {.copy = true,
          .device = stream.device,
          .from = from.type,
          .to = to.type,
          .from_device = from.device,
          .to_device = to.device,
          .size = size};
}

}  // namespace

cudaError_t fake_cuda::result(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t code = last_error;
  last_error = cudaSuccess;
  return code;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t code) {
  switch (code) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    default:
      return "another error";
  }
}
const char* cudaGetErrorString(cudaError_t code) { return cudaGetErrorName(code); }

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](Machine& machine) {
    if (machine.devices == 0) return cudaErrorNoDevice;
    *count = machine.devices;
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&](Machine&) {
    *version = 0;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](Machine& machine) {
    if (device >= machine.devices) return cudaErrorInvalidDevice;
    fake_cuda::current_device() = device;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  *device = fake_cuda::current_device();
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&](Machine& machine) {
    if (device >= machine.devices || peer >= machine.devices) return cudaErrorInvalidDevice;
    *possible = device != peer;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return call("cudaDeviceEnablePeerAccess", [&](Machine& machine) {
    if (peer >= machine.devices || peer == fake_cuda::current_device()) return cudaErrorInvalidDevice;
    return machine.peers.insert({fake_cuda::current_device(), peer}).second ? cudaSuccess
                                                                            : cudaErrorPeerAccessAlreadyEnabled;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](Machine& machine) {
    if (device >= machine.devices) return cudaErrorInvalidDevice;
    std::memset(properties, 0, sizeof *properties);
    std::strcpy(properties->name, "no GPU, a stand-in for tests");
    properties->totalGlobalMem = machine.capacity;
    properties->major = 8;
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&](Machine& machine) {
    *free = machine.capacity - machine.device_bytes;
    *total = machine.capacity;
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** pointer, std::size_t size) {
  return call("cudaMalloc", [&](Machine& machine) { return machine.allocate(pointer, size, false); });
}
cudaError_t cudaFree(void* pointer) {
  return call("cudaFree", [&](Machine& machine) { return machine.release(pointer, false); });
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t size, unsigned) {
  return call("cudaHostAlloc", [&](Machine& machine) { return machine.allocate(pointer, size, true); });
}
cudaError_t cudaFreeHost(void* pointer) {
  return call("cudaFreeHost", [&](Machine& machine) { return machine.release(pointer, true); });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call("cudaPointerGetAttributes", [&](Machine& machine) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    const char* const address = static_cast<const char*>(pointer);
    auto after = machine.blocks.upper_bound(const_cast<char*>(address));
    if (after == machine.blocks.begin()) return cudaSuccess;
    const auto& [begin, block] = *std::prev(after);
    if (address < begin + block.size) {
      attributes->type = block.pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
      attributes->device = block.device;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](Machine& machine) {
    machine.carry_out_all();
    return waited(machine);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return call("cudaStreamCreateWithFlags", [&](Machine& machine) {
    *stream = new CUstream_st{.device = fake_cuda::current_device()};
    machine.streams.insert(*stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call("cudaStreamDestroy", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.carry_out(stream, stream->end());
    machine.streams.erase(stream);
    machine.dead_streams.push_back(stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.carry_out(stream, stream->end());
    return waited(machine);
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return call("cudaStreamWaitEvent", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr || !machine.events.contains(event)) return cudaErrorInvalidResourceHandle;
    if (!is_complete(*event)) stream->pending.push_back({.awaited = event->stream, .position = event->position});
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&](Machine& machine) {
    *event = new CUevent_st{.device = fake_cuda::current_device(), .timed = (flags & cudaEventDisableTiming) == 0};
    machine.events.insert(*event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&](Machine& machine) {
    if (machine.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    machine.dead_events.push_back(event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return call("cudaEventRecord", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr || !machine.events.contains(event)) return cudaErrorInvalidResourceHandle;
    if (stream != &machine.default_stream && stream->device != event->device) return cudaErrorInvalidResourceHandle;
    if (event->timed) machine.push(stream, [event] { event->time = std::chrono::steady_clock::now(); });
    event->stream = stream;
    event->position = stream->end();
    return cudaSuccess;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&](Machine& machine) {
    if (!machine.events.contains(event)) return cudaErrorInvalidResourceHandle;
    if (is_complete(*event)) return waited(machine);
    // A real device goes on by itself; who asks again and again must see the end.
    machine.run_front(event->stream);
    return is_complete(*event) ? waited(machine) : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call("cudaEventSynchronize", [&](Machine& machine) {
    if (!machine.events.contains(event)) return cudaErrorInvalidResourceHandle;
    if (event->stream != nullptr) machine.carry_out(event->stream, event->position);
    return waited(machine);
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return call("cudaEventElapsedTime", [&](Machine& machine) {
    if (!machine.events.contains(begin) || !machine.events.contains(end)) return cudaErrorInvalidResourceHandle;
    if (!begin->timed || !end->timed) return cudaErrorInvalidResourceHandle;
    if (!is_complete(*begin) || !is_complete(*end)) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* destination, const void* source, std::size_t size, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const cudaPointerAttributes from = attributes_of(source), to = attributes_of(destination);
  return call("cudaMemcpyAsync", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const bool reads_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    const bool writes_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if (reads_device != (from.type == cudaMemoryTypeDevice) || writes_device != (to.type == cudaMemoryTypeDevice)) {
      return cudaErrorInvalidValue;
    }
    const auto traced = machine.traced(copy_of(*stream, from, to, size));
    if (kind == cudaMemcpyHostToDevice && from.type == cudaMemoryTypeUnregistered) {
      // Pageable memory is staged before the call returns.
      auto staged = std::make_shared<std::vector<char>>(static_cast<const char*>(source),
                                                        static_cast<const char*>(source) + size);
      machine.push(
          stream, [=] { std::memcpy(destination, staged->data(), size); }, traced);
      return cudaSuccess;
    }
    machine.push(
        stream, [=] { std::memmove(destination, source, size); }, traced);
    if (kind == cudaMemcpyDeviceToHost && to.type == cudaMemoryTypeUnregistered) {
      machine.carry_out(stream, stream->end());
      return waited(machine);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyPeerAsync(void* destination, int to_device, const void* source, int from_device, std::size_t size,
                                cudaStream_t handle) {
  const cudaPointerAttributes from = attributes_of(source), to = attributes_of(destination);
  return call("cudaMemcpyPeerAsync", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const bool as_said = from.type == cudaMemoryTypeDevice && from.device == from_device &&
                         to.type == cudaMemoryTypeDevice && to.device == to_device;
    if (!as_said) return cudaErrorInvalidValue;
    machine.push(
        stream, [=] { std::memmove(destination, source, size); }, machine.traced(copy_of(*stream, from, to, size)));
    return cudaSuccess;
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t size, cudaStream_t handle) {
  return call("cudaMemsetAsync", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    machine.push(stream, [=] { std::memset(pointer, value, size); });
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", [&](Machine& machine) {
    CUstream_st* const stream = machine.stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->device != fake_cuda::current_device()) return cudaErrorInvalidResourceHandle;
    machine.push(
        stream, [=] { function(data); }, machine.traced({.device = stream->device}));
    return cudaSuccess;
  });
}

}  // extern "C"
