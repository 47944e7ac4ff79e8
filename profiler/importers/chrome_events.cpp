#include "profiler/importers/chrome_events.h"

#include <unordered_map>

#include "profiler/importers/decimal.h"

namespace ferry::profiler::importers {
namespace {

class EventReader {
 public:
  EventReader(const Input& input, Activity& activity, ChromeDialect& dialect)
      : reader_(input.open(), input.name()), activity_(activity), dialect_(dialect) {}

  void read() {
    try {
      read_document();
    } catch (const EndOfInput& end) {
      activity_.tolerated.truncated_at = static_cast<std::int64_t>(end.offset);
    }
    for (const auto& [track, begins] : open_) activity_.tolerated.unmatched_begins += std::ssize(begins);
  }

 private:
  void read_document() {
    switch (reader_.next_type()) {
      case JsonReader::Type::array:
        return read_events();
      case JsonReader::Type::object:
        break;
      default:
        reader_.fail("expected an object or an array of trace events");
    }
    reader_.begin_object();
    for (std::string_view key; reader_.next_key(key);) {
      if (key == "traceEvents" && reader_.next_type() == JsonReader::Type::array) {
        read_events();
      } else if (!dialect_.member(key, reader_)) {
        reader_.skip();
      }
    }
  }

  void read_events() {
    reader_.begin_array();
    while (reader_.next_element()) {
      if (reader_.next_type() != JsonReader::Type::object) {
        reader_.skip();
        continue;
      }
      event_ = {};
      read_event();
      take();
    }
  }

  NameIndex name() { return activity_.names.intern(reader_.text()); }
  // Numbers may be written as text.
  std::int64_t number(std::int64_t otherwise) {
    if (is_container()) return otherwise;
    return integer(reader_.text()).value_or(otherwise);
  }
  std::uint64_t unsigned_number() {
    if (is_container()) return 0;
    return unsigned_integer(reader_.text()).value_or(0);
  }
  bool is_container() {
    const JsonReader::Type type = reader_.next_type();
    if (type != JsonReader::Type::object && type != JsonReader::Type::array) return false;
    reader_.skip();
    return true;
  }
  void microseconds(Nanoseconds& time, bool& known) {
    if (is_container()) return;
    const auto value = scaled(reader_.text(), 3);
    known = value.has_value();
    time = Nanoseconds(value.value_or(0));
  }
  void text(NameIndex& to) {
    if (!is_container()) to = name();
  }

  void read_event() {
    reader_.begin_object();
    for (std::string_view key; reader_.next_key(key);) {
      if (key == "args") {
        read_args();
      } else if (key == "name") {
        text(event_.name);
      } else if (key == "ts") {
        microseconds(event_.begin, event_.has_begin);
      } else if (key == "dur") {
        microseconds(event_.duration, event_.has_duration);
      } else if (key == "ph") {
        if (is_container()) continue;
        const std::string_view phase = reader_.text();
        event_.phase = phase.empty() ? '\0' : phase[0];
      } else if (key == "cat") {
        text(event_.category);
      } else if (key == "pid") {
        text(event_.process);
      } else if (key == "tid") {
        text(event_.thread);
      } else {
        reader_.skip();
      }
    }
  }

  void read_args() {
    if (reader_.next_type() != JsonReader::Type::object) return reader_.skip();
    reader_.begin_object();
    for (std::string_view key; reader_.next_key(key);) {
      if (!read_number_argument(key) && !read_text_argument(key)) reader_.skip();
    }
  }

  bool read_number_argument(std::string_view key) {
    if (key == "correlation" || key == "correlation id" || key == "correlation_id") {
      event_.correlation = unsigned_number();
    } else if (key == "External id" || key == "external id") {
      event_.external = unsigned_number();
    } else if (key == "device") {
      event_.device = number(-1);
    } else if (key == "stream") {
      event_.stream = number(-1);
    } else if (key == "bytes" || key == "size") {
      event_.bytes = number(-1);
    } else if (key == "src") {
      event_.source = unsigned_number();
    } else if (key == "dst") {
      event_.destination = unsigned_number();
    } else if (key == "wait_on_stream") {
      event_.waited_stream = number(-1);
    } else if (key == "wait_on_cuda_event_record_corr_id") {
      event_.waited_record = unsigned_number();
    } else if (key == "step_num") {
      event_.step = number(-1);
    } else if (key == "drain_ns") {
      event_.drain_ns = number(-1);
    } else if (key == "transfer_ns") {
      event_.transfer_ns = number(-1);
    } else {
      return false;
    }
    return true;
  }

  bool read_text_argument(std::string_view key) {
    if (key == "Call stack" || key == "callstack") {
      text(event_.call_stack);
    } else if (key == "kind") {
      text(event_.kind);
    } else if (key == "memcpy_details") {
      text(event_.memcpy_details);
    } else if (key == "name") {
      text(event_.label);
    } else if (key == "class") {
      text(event_.copy_class);
    } else if (key == "memory") {
      text(event_.memory);
    } else if (key == "line") {
      text(event_.line);
    } else {
      return false;
    }
    return true;
  }

  void take() {
    switch (event_.phase) {
      case 'X':
        return take_slice(event_);
      case 'B':
        if (event_.has_begin) open_[track_key(event_)].push_back(event_);
        return;
      case 'E':
        return take_end();
      case 'M':
        return dialect_.metadata(event_);
      default:
        return;
    }
  }

  void take_slice(const ChromeEvent& event) {
    if (!event.has_begin || !event.has_duration || event.duration < Nanoseconds(0)) {
      ++activity_.tolerated.without_time;
      return;
    }
    // Sums of times stay in range: no trace begins later than the year 2100 or lasts for a century.
    constexpr std::int64_t kLatest = std::int64_t{1} << 62;
    if (event.begin.count() > kLatest || event.begin.count() < -kLatest || event.duration.count() > kLatest / 2) {
      ++activity_.tolerated.without_time;
      return;
    }
    dialect_.slice(event);
  }

  void take_end() {
    const auto found = open_.find(track_key(event_));
    if (found == open_.end() || found->second.empty() || !event_.has_begin) {
      ++activity_.tolerated.unmatched_begins;
      return;
    }
    ChromeEvent whole = found->second.back();
    found->second.pop_back();
    whole.duration = Nanoseconds(static_cast<std::int64_t>(static_cast<std::uint64_t>(event_.begin.count()) -
                                                           static_cast<std::uint64_t>(whole.begin.count())));
    whole.has_duration = true;
    take_slice(whole);
  }

  static std::uint64_t track_key(const ChromeEvent& event) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(event.process)) << 32 |
           static_cast<std::uint32_t>(event.thread);
  }

  JsonReader reader_;
  Activity& activity_;
  ChromeDialect& dialect_;
  ChromeEvent event_;
  std::unordered_map<std::uint64_t, std::vector<ChromeEvent>> open_;  // begins that wait for their end
};

}  // namespace

void read_chrome_events(const Input& input, Activity& activity, ChromeDialect& dialect) {
  EventReader(input, activity, dialect).read();
}

bool looks_like_chrome_events(const Input& input) {
  std::string_view head = input.head();
  const auto skip_space = [&] {
    while (!head.empty() && static_cast<unsigned char>(head.front()) <= 0x20) head.remove_prefix(1);
  };
  skip_space();
  if (head.starts_with('{')) return head.find("\"traceEvents\"") != std::string_view::npos || head.size() >= 1u << 19;
  if (!head.starts_with('[')) return false;
  head.remove_prefix(1);
  skip_space();
  return head.starts_with('{') || head.starts_with(']');
}

void read_gpus(JsonReader& reader, Activity& activity) {
  if (reader.next_type() != JsonReader::Type::array) return reader.skip();
  reader.begin_array();
  while (reader.next_element()) {
    if (reader.next_type() != JsonReader::Type::object) {
      reader.skip();
      continue;
    }
    analysis::Gpu gpu;
    reader.begin_object();
    for (std::string_view key; reader.next_key(key);) {
      const bool is_id = key == "id", is_name = key == "name";
      const JsonReader::Type type = reader.next_type();
      if ((!is_id && !is_name) || type == JsonReader::Type::object || type == JsonReader::Type::array) {
        reader.skip();
      } else if (is_id) {
        gpu.id = static_cast<std::int32_t>(integer(reader.text()).value_or(0));
      } else {
        gpu.name = reader.text();
      }
    }
    activity.gpus.push_back(std::move(gpu));
  }
}

void read_rank(JsonReader& reader, Activity& activity) {
  if (reader.next_type() != JsonReader::Type::object) return reader.skip();
  reader.begin_object();
  for (std::string_view key; reader.next_key(key);) {
    const bool is_rank = key == "rank";
    const JsonReader::Type type = reader.next_type();
    if (!is_rank || type == JsonReader::Type::object || type == JsonReader::Type::array) {
      reader.skip();
    } else {
      activity.rank = integer(reader.text()).value_or(-1);
    }
  }
}

Event& add_slice(Activity& activity, const ChromeEvent& event, EventKind kind, TrackIndex track) {
  Event& added = activity.events.emplace_back();
  added.begin = event.begin;
  added.end = event.begin + event.duration;
  added.correlation = event.correlation;
  added.name = event.name;
  added.track = track;
  added.kind = kind;
  // Larger ones are no counts of a profiler.
  added.external = event.external <= 0xffffffffu ? static_cast<std::uint32_t>(event.external) : 0;
  return added;
}

std::int64_t number_in(std::string_view name) {
  const std::size_t at = name.find_first_of("0123456789");
  if (at == std::string_view::npos) return -1;
  name.remove_prefix(at);
  return integer(name.substr(0, name.find_first_not_of("0123456789"))).value_or(-1);
}

}  // namespace ferry::profiler::importers
