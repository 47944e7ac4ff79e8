// What tools call copies: direction and kind of host memory, read from the name.
#pragma once

#include <string_view>

#include "profiler/importers/fill_activity.h"

namespace ferry::profiler::importers {

// Of "Memcpy HtoD (Pageable -> Device)", "MemcpyD2H", "MEMCPY_DtoH", "GpuMemcpySync:GPU->CPU",
// "kind_src:device kind_dst:pinned size:4 dest:0 async:1", "cuMemcpyHtoD_v2". Size: from "size:N", else 0.
CopyDetail copy_of_name(std::string_view name);

// Of the numbers of cudaMemcpyKind and hipMemcpyKind: 0 host→host, 1 host→device, 2 device→host, 3 device→device.
Direction direction_of_kind(std::string_view number);

}  // namespace ferry::profiler::importers
