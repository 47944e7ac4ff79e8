// A stand-in for CUPTI's activity records: of every copy and kernel that the machine carries out while it is enabled.
#include <cupti.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/fake_cudart/machine.h"

using fake_cuda::Machine;

namespace {

CUpti_BuffersCallbackRequestFunc request_buffer = nullptr;
CUpti_BuffersCallbackCompleteFunc complete_buffer = nullptr;
CUpti_TimestampCallbackFunc timestamp = nullptr;
std::set<CUpti_ActivityKind> enabled;

std::uint64_t nanoseconds(std::chrono::steady_clock::time_point at) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}

std::uint8_t kind_of(cudaMemoryType type) {
  switch (type) {
    case cudaMemoryTypeDevice:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    case cudaMemoryTypeHost:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    default:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  }
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    default:
      return sizeof(CUpti_ActivityKernel9);
  }
}

template <class Record>
void append(std::vector<std::uint8_t>& bytes, const Record& record) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof record);
  std::memcpy(bytes.data() + at, &record, sizeof record);
}

template <class Record>
Record record_of(CUpti_ActivityKind kind, const fake_cuda::Activity& activity) {
  Record record{};
  record.kind = kind;
  record.start = nanoseconds(activity.begin);
  record.end = nanoseconds(activity.end);
  record.deviceId = static_cast<std::uint32_t>(activity.work.device);
  record.correlationId = activity.work.call;
  return record;
}

template <class Record>
Record copy_record_of(CUpti_ActivityKind kind, const fake_cuda::Activity& activity) {
  auto record = record_of<Record>(kind, activity);
  record.bytes = activity.work.size;
  record.srcKind = kind_of(activity.work.from);
  record.dstKind = kind_of(activity.work.to);
  return record;
}

void append(std::vector<std::uint8_t>& bytes, const fake_cuda::Activity& activity) {
  if (!activity.work.copy) {
    return append(bytes, record_of<CUpti_ActivityKernel9>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, activity));
  }
  const bool between_devices = activity.work.from == cudaMemoryTypeDevice && activity.work.to == cudaMemoryTypeDevice &&
                               activity.work.from_device != activity.work.to_device;
  if (!between_devices) {
    return append(bytes, copy_record_of<CUpti_ActivityMemcpy5>(CUPTI_ACTIVITY_KIND_MEMCPY, activity));
  }
  auto record = copy_record_of<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, activity);
  record.srcDeviceId = static_cast<std::uint32_t>(activity.work.from_device);
  record.dstDeviceId = static_cast<std::uint32_t>(activity.work.to_device);
  append(bytes, record);
}

std::vector<std::uint8_t> taken_records(Machine& machine) {
  std::vector<std::uint8_t> bytes;
  for (const auto& [call, id] : machine.correlations) {
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    record.externalId = id;
    record.correlationId = call;
    append(bytes, record);
  }
  for (const fake_cuda::Activity& activity : machine.activities) append(bytes, activity);
  if (machine.blind) bytes.clear();
  machine.correlations.clear();
  machine.activities.clear();
  return bytes;
}

// Hands over the records in as many buffers as they take.
void hand_over(const std::vector<std::uint8_t>& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0;
    request_buffer(&buffer, &size, &most);
    while (buffer != nullptr && at < bytes.size()) {
      CUpti_ActivityKind kind{};
      std::memcpy(&kind, bytes.data() + at, sizeof kind);
      if (used + size_of(kind) > size) break;
      std::memcpy(buffer + used, bytes.data() + at, size_of(kind));
      used += size_of(kind);
      at += size_of(kind);
    }
    if (buffer == nullptr) return;
    complete_buffer(nullptr, 0, buffer, size, used);
  }
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  request_buffer = request;
  complete_buffer = complete;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  timestamp = function;
  return enabled.empty() ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_OPERATION;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  if (machine.enter("cuptiActivityEnable") != cudaSuccess) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  if (request_buffer == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  enabled.insert(kind);
  // External correlations come with records of calls alone.
  machine.tracing =
      enabled.contains(CUPTI_ACTIVITY_KIND_MEMCPY) && enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) &&
      enabled.contains(CUPTI_ACTIVITY_KIND_RUNTIME) && enabled.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  Machine& machine = Machine::get();
  const std::lock_guard lock(machine.mutex);
  enabled.erase(kind);
  machine.tracing = false;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  std::vector<std::uint8_t> bytes;
  {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    bytes = taken_records(machine);
  }
  hand_over(bytes);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* const next =
      *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t id) {
  fake_cuda::external_ids().push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, std::uint64_t* id) {
  if (fake_cuda::external_ids().empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *id = fake_cuda::external_ids().back();
  fake_cuda::external_ids().pop_back();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                                                                   : "another error";
  return CUPTI_SUCCESS;
}

}  // extern "C"
