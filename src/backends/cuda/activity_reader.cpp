#include "src/backends/cuda/activity_reader.h"

#include <utility>

namespace ferry::cuda_backend {
namespace {

// Versions of the records that every supported toolkit has; newer ones have more fields at their end.
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;

template <class Record>
const Record& as(const CUpti_Activity& record) {
  return *reinterpret_cast<const Record*>(&record);
}

trace::Memory memory_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return trace::Memory::device;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return trace::Memory::pinned;
    default:
      return trace::Memory::pageable;
  }
}

template <class Record>
Activity activity_of(const Record& record, trace::WorkKind kind) {
  Activity activity;
  activity.device = record.deviceId;
  activity.kind = kind;
  activity.begin = Nanoseconds(static_cast<std::int64_t>(record.start));
  activity.end = Nanoseconds(static_cast<std::int64_t>(record.end));
  return activity;
}

template <class Record>
Activity copy_of(const Record& record) {
  Activity activity = activity_of(record, trace::WorkKind::copy);
  activity.from = memory_of(record.srcKind);
  activity.to = memory_of(record.dstKind);
  activity.size = Bytes{static_cast<std::int64_t>(record.bytes)};
  return activity;
}

}  // namespace

void ActivityReader::read(const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& correlation = as<CUpti_ActivityExternalCorrelation>(record);
      ids_[correlation.correlationId] = correlation.externalId;
      if (const auto found = unclaimed_.find(correlation.correlationId); found != unclaimed_.end()) {
        for (Activity& activity : found->second) {
          activity.id = correlation.externalId;
          ready_.push_back(activity);
        }
        unclaimed_.erase(found);
      }
      return;
    }
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = as<KernelRecord>(record);
      return claim(kernel.correlationId, activity_of(kernel, trace::WorkKind::kernel));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = as<CopyRecord>(record);
      Activity activity = copy_of(copy);
      activity.within_device = activity.from == trace::Memory::device && activity.to == trace::Memory::device;
      return claim(copy.correlationId, activity);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& copy = as<PeerCopyRecord>(record);
      Activity activity = copy_of(copy);
      activity.within_device = copy.srcDeviceId == copy.dstDeviceId;
      return claim(copy.correlationId, activity);
    }
    default:
      return;
  }
}

void ActivityReader::claim(std::uint32_t call, Activity activity) {
  const auto found = ids_.find(call);
  if (found == ids_.end()) {
    unclaimed_[call].push_back(activity);
    return;
  }
  activity.id = found->second;
  ready_.push_back(activity);
}

std::vector<Activity> ActivityReader::take() { return std::exchange(ready_, {}); }

std::vector<Activity> ActivityReader::take_unclaimed(std::uint32_t device) {
  std::vector<Activity> taken;
  std::erase_if(unclaimed_, [&](const auto& entry) {
    if (entry.second.front().device != device) return false;
    taken.insert(taken.end(), entry.second.begin(), entry.second.end());
    return true;
  });
  return taken;
}

void ActivityReader::forget(std::uint64_t first, std::uint64_t last) {
  std::erase_if(ids_, [&](const auto& entry) { return entry.second >= first && entry.second < last; });
}

}  // namespace ferry::cuda_backend
