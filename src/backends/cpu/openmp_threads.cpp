#include "src/backends/cpu/openmp_threads.h"

#include <omp.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace ferry::cpu_backend {
namespace {

// Makes the calling thread the master of a team that it never uses again, and blocks for the life of the process.
void hold_team(int threads) {
  int started = 0;
#pragma omp parallel num_threads(threads) reduction(+ : started)
  started += 1;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait(lock, [&] { return started < 0; });
}

}  // namespace

void let_idle_openmp_threads_sleep() {
  static std::once_flag once;
  std::call_once(once, [] {
    const bool user_decides = std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
    const int processors = omp_get_num_procs();
    if (!user_decides && processors > 1) std::thread(hold_team, processors).detach();
  });
}

}  // namespace ferry::cpu_backend
