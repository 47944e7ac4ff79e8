// Nsight Systems exports: `nsys export --type sqlite`, or `nsys stats`, which makes one. Tables appear only when there
// was something to put into them, and columns differ between versions: each is asked for before it is read.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "profiler/importers/copy_names.h"
#include "profiler/importers/importer.h"
#include "profiler/importers/sqlite_file.h"
#include "profiler/importers/track_table.h"

namespace ferry::profiler::importers {
namespace {

Direction direction_of_copy(std::int64_t kind) {
  switch (kind) {  // ENUM_CUDA_MEMCPY_OPER
    case 1:
    case 3:
      return Direction::host_to_device;
    case 2:
    case 4:
      return Direction::device_to_host;
    case 5:
    case 6:
    case 7:
    case 8:
    case 10:
    case 13:
      return Direction::device_to_device;
    case 9:
      return Direction::host_to_host;
    default:
      return Direction::unknown;  // 11 and 12: migrations of managed memory, which no call asks for
  }
}

HostMemory memory_of_kind(std::int64_t kind) {
  switch (kind) {  // ENUM_CUDA_MEM_KIND
    case 0:
      return HostMemory::pageable;
    case 1:
      return HostMemory::pinned;
    case 4:
    case 6:
      return HostMemory::managed;
    default:
      return HostMemory::unknown;
  }
}

class NsightReader {
 public:
  NsightReader(const Input& input, Activity& activity) : activity_(activity), tracks_(activity), file_(input) {}

  void read() {
    read_strings();
    read_gpus();
    find_processes();
    read_calls();
    read_kernels("CUPTI_ACTIVITY_KIND_KERNEL", "");
    read_kernels("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUDA graph");
    read_copies();
    read_memsets();
    read_waits();
    read_ranges();
    name_threads();
  }

 private:
  // Opens a table; says which columns it lacks, and what is then not known if it is not there.
  TableRows table(std::string_view name, const std::vector<std::string_view>& needed,
                  const std::vector<std::string_view>& wanted, std::string_view loss = {}) {
    TableRows rows(file_, name, needed, wanted);
    if (!rows.missing().empty()) {
      activity_.warnings.push_back(fmt::format("table {} lacks {} and is not read", name, rows.missing()));
    } else if (!rows.exists() && !loss.empty()) {
      activity_.warnings.push_back(fmt::format("the export has no table {}: {}", name, loss));
    }
    return rows;
  }

  void read_strings() {
    TableRows rows = table("StringIds", {"id", "value"}, {}, "calls and kernels have no names");
    while (rows.next()) strings_[rows.integer(0)] = activity_.names.intern(rows.text(1));
  }

  NameIndex string(std::int64_t id) {
    const auto found = strings_.find(id);
    return found != strings_.end() ? found->second : activity_.names.intern(fmt::format("string {}", id));
  }

  void read_gpus() {
    TableRows rows = table("TARGET_INFO_GPU", {"id"}, {"name"});
    while (rows.next())
      activity_.gpus.push_back({static_cast<std::int32_t>(rows.integer(0)), std::string(rows.text(1))});
  }

  // Correlations count for each process. GPU work that lacks its process is joined as if there were only one.
  void find_processes() {
    for (const std::string_view name : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"}) {
      const TableRows rows(file_, name, {"start"}, {"globalPid"});
      if (rows.exists() && !rows.has(1)) has_processes_ = false;
    }
  }

  std::uint64_t correlation(std::int64_t global, std::int64_t id) {
    if (id == 0) return 0;
    const std::int64_t process = has_processes_ ? global >> 24 : 0;
    const auto [entry, is_new] = processes_.try_emplace(process, processes_.size());
    return entry->second << 32 | static_cast<std::uint32_t>(id);
  }

  // The first two columns are the times. Nothing where add_event adds nothing.
  Event* add(EventKind kind, const TableRows& rows, TrackIndex track) {
    return add_event(activity_, kind, Nanoseconds(rows.integer(0)), Nanoseconds(rows.integer(1)), track);
  }

  TrackIndex thread(std::int64_t global) {
    const NameIndex process = activity_.names.intern(std::to_string(global >> 24 & 0xffffff));
    const NameIndex thread = activity_.names.intern(std::to_string(global & 0xffffff));
    return threads_[global] = tracks_.thread(process, thread);
  }

  TrackIndex stream(const TableRows& rows, std::size_t device, std::size_t stream) {
    return tracks_.stream(static_cast<std::int32_t>(rows.integer(device, 0)), rows.integer(stream, -1));
  }

  void count(const TableRows& rows) { activity_.tolerated.without_time += rows.incomplete_rows(); }

  void read_calls() {
    TableRows rows = table("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end"}, {"correlationId", "globalTid", "nameId"},
                           "no call of CUDA was recorded; trace with --trace=cuda");
    activity_.has_launches = rows.exists();
    while (rows.next()) {
      Event* const event = add(EventKind::call, rows, thread(rows.integer(3)));
      if (event == nullptr) continue;
      event->correlation = correlation(rows.integer(3), rows.integer(2));
      event->name = string(rows.integer(4, -1));
      const std::string_view name = activity_.names[event->name];
      event->call = analysis::classify_call(name);
      if (event->call != CallClass::copy && event->call != CallClass::copy_async) continue;
      add_copy(activity_, *event, copy_of_name(name));
    }
    count(rows);
  }

  void read_kernels(std::string_view name, std::string_view label) {
    TableRows rows = table(name, {"start", "end"},
                           {"deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName"});
    while (rows.next()) {
      Event* const event = add(EventKind::kernel, rows, stream(rows, 2, 3));
      if (event == nullptr) continue;
      event->correlation = correlation(rows.integer(5), rows.integer(4));
      event->name = label.empty() ? string(rows.integer(6, rows.integer(7, -1))) : activity_.names.intern(label);
    }
    count(rows);
  }

  void read_copies() {
    TableRows rows =
        table("CUPTI_ACTIVITY_KIND_MEMCPY", {"start", "end"},
              {"deviceId", "streamId", "correlationId", "globalPid", "copyKind", "bytes", "srcKind", "dstKind"});
    while (rows.next()) {
      Event* const event = add(EventKind::copy, rows, stream(rows, 2, 3));
      if (event == nullptr) continue;
      event->correlation = correlation(rows.integer(5), rows.integer(4));
      CopyDetail detail;
      detail.direction = direction_of_copy(rows.integer(6, -1));
      if (detail.direction == Direction::host_to_device) detail.memory = memory_of_kind(rows.integer(8, -1));
      if (detail.direction == Direction::device_to_host) detail.memory = memory_of_kind(rows.integer(9, -1));
      detail.size = Bytes{std::max<std::int64_t>(rows.integer(7), 0)};
      event->name = activity_.names.intern(name_of(detail.direction));
      add_copy(activity_, *event, detail);
    }
    count(rows);
  }

  static std::string_view name_of(Direction direction) {
    switch (direction) {
      case Direction::host_to_device:
        return "Memcpy HtoD";
      case Direction::device_to_host:
        return "Memcpy DtoH";
      case Direction::device_to_device:
        return "Memcpy DtoD";
      default:
        return "Memcpy";
    }
  }

  void read_memsets() {
    TableRows rows =
        table("CUPTI_ACTIVITY_KIND_MEMSET", {"start", "end"}, {"deviceId", "streamId", "correlationId", "globalPid"});
    while (rows.next()) {
      Event* const event = add(EventKind::memset, rows, stream(rows, 2, 3));
      if (event == nullptr) continue;
      event->correlation = correlation(rows.integer(5), rows.integer(4));
      event->name = activity_.names.intern("Memset");
    }
    count(rows);
  }

  void read_waits() {
    TableRows rows = table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", {"correlationId", "streamId"}, {"globalPid"});
    constexpr std::int64_t kNone = 0xffffffff;  // CUPTI's mark of no stream
    while (rows.next()) {
      const std::int64_t stream = rows.integer(1);
      activity_.waits.push_back({correlation(rows.integer(2), rows.integer(0)), stream < kNone ? stream : -1});
    }
  }

  // Ranges pushed and popped (59) and started and ended (60); marks have no end.
  void read_ranges() {
    TableRows rows = table("NVTX_EVENTS", {"start", "end"}, {"text", "textId", "globalTid", "eventType"});
    while (rows.next()) {
      const std::int64_t type = rows.integer(5, 59);
      if (type != 59 && type != 60) continue;
      Event* const event = add(EventKind::annotation, rows, thread(rows.integer(4)));
      if (event == nullptr) continue;
      event->name = !rows.is_null(2)   ? activity_.names.intern(rows.text(2))
                    : !rows.is_null(3) ? string(rows.integer(3))
                                       : activity_.names.intern("a range without a name");
    }
  }

  void name_threads() {
    TableRows rows = table("ThreadNames", {"nameId", "globalTid"}, {});
    while (rows.next()) {
      const auto found = threads_.find(rows.integer(1));
      if (found == threads_.end()) continue;
      activity_.tracks[static_cast<std::size_t>(found->second)].name = activity_.names[string(rows.integer(0))];
    }
  }

  Activity& activity_;
  TrackTable tracks_;
  SqliteFile file_;
  std::unordered_map<std::int64_t, NameIndex> strings_;
  std::unordered_map<std::int64_t, std::uint64_t> processes_;
  std::unordered_map<std::int64_t, TrackIndex> threads_;
  bool has_processes_ = true;
};

bool recognizes(const Input& input) {
  return !input.compressed() && input.head().starts_with(std::string_view("SQLite format 3\0", 16));
}

void read(const Input& input, Activity& activity) {
  activity.framework = analysis::Framework::cuda;
  NsightReader(input, activity).read();
}

}  // namespace

const Importer kNsightImporter{"Nsight Systems", recognizes, read};

}  // namespace ferry::profiler::importers
