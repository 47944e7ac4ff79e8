#include "swap/copy_lane.h"

#include <algorithm>

namespace ferry::swap {

void line_up(std::vector<CopyJob>& jobs) {
  std::vector<CopyJob*> by_release;
  for (CopyJob& job : jobs) by_release.push_back(&job);
  std::ranges::stable_sort(by_release, {}, &CopyJob::release);
  const auto later = [](const CopyJob* a, const CopyJob* b) { return a->deadline > b->deadline; };
  std::vector<CopyJob*> ready;
  Nanoseconds now = Nanoseconds::min();
  for (auto next = by_release.begin(); next != by_release.end() || !ready.empty();) {
    if (ready.empty()) now = std::max(now, (*next)->release);
    for (; next != by_release.end() && (*next)->release <= now; ++next) {
      ready.push_back(*next);
      std::ranges::push_heap(ready, later);
    }
    std::ranges::pop_heap(ready, later);
    ready.back()->begin = now;
    now += ready.back()->length;
    ready.pop_back();
  }
}

}  // namespace ferry::swap
