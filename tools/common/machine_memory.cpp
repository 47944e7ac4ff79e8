#include "tools/common/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace program {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// The number in a file of one number; `kUnlimited` where there is none ("max").
std::int64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? value : kUnlimited;
}

std::int64_t available_to_the_system() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::int64_t kib = 0;
  while (file >> key >> kib && std::getline(file, unit)) {
    if (key == "MemAvailable:") return kib * ferry::kKiB.count;
  }
  return kUnlimited;
}

// Caches of files count as used in a cgroup, but give way.
std::int64_t reclaimable(const std::string& stat_path, const std::string& wanted) {
  std::ifstream file(stat_path);
  std::string key;
  std::int64_t value = 0;
  while (file >> key >> value) {
    if (key == wanted) return value;
  }
  return 0;
}

std::int64_t left_in_group(const std::string& limit, const std::string& used, const std::string& stat,
                           const std::string& cache_key) {
  const std::int64_t bytes = number_in(limit), in_use = number_in(used);
  if (bytes == kUnlimited || in_use == kUnlimited) return kUnlimited;
  return std::max<std::int64_t>(bytes - in_use + reclaimable(stat, cache_key), 0);
}

// The path of this process's group from a line such as "0::/user.slice" or "4:memory:/docker/…".
std::string group_of(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return {};
}

// The tightest limit of a group and those around it.
template <class Left>
std::int64_t tightest(std::string group, Left left) {
  std::int64_t result = kUnlimited;
  while (true) {
    result = std::min(result, left(group == "/" ? "" : group));
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos || group == "/" || group.empty()) return result;
    group = group.substr(0, slash);
  }
}

}  // namespace

ferry::Bytes available_memory() {
  const std::int64_t unified = tightest(group_of(""), [](const std::string& group) {
    const std::string folder = "/sys/fs/cgroup" + group + "/memory.";
    return left_in_group(folder + "max", folder + "current", folder + "stat", "inactive_file");
  });
  const std::int64_t legacy = tightest(group_of("memory"), [](const std::string& group) {
    const std::string folder = "/sys/fs/cgroup/memory" + group + "/memory.";
    return left_in_group(folder + "limit_in_bytes", folder + "usage_in_bytes", folder + "stat", "total_inactive_file");
  });
  return ferry::Bytes{std::min({available_to_the_system(), unified, legacy})};
}

}  // namespace program
