#include "profiler/rules/rule.h"

#include <array>

namespace ferry::profiler::rules {

std::span<const Rule> all_rules() {
  static const std::array<Rule, 10> kRules = {kSyncCopy,       kPageableAsyncCopy, kScalarReadback,  kDeviceWideSync,
                                              kSyncMemset,     kPingPong,          kSmallHostTensor, kGpuGap,
                                              kLowUtilisation, kDataLoaderWait};
  return kRules;
}

}  // namespace ferry::profiler::rules
