// In place of the files on CUPTI where its headers are not installed.
#include "src/backends/cuda/work_log.h"

namespace ferry::cuda_backend {

std::unique_ptr<WorkLog> make_activity_log(Device, int, const Clock&) { return nullptr; }

}  // namespace ferry::cuda_backend
