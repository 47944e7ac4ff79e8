// Reads the records of ferry's own traces from JSON one at a time, with memory for one record. Which fields there are,
// their types and what errors say of them is as in src/trace/trace_json.h.
#pragma once

#include <fmt/ranges.h>

#include <charconv>
#include <concepts>
#include <string>
#include <type_traits>
#include <vector>

#include <ferry/device.h>
#include <ferry/dtype.h>
#include <ferry/shape.h>
#include <ferry/units.h>
#include "profiler/importers/json_reader.h"
#include "src/trace/trace_fields.h"

namespace ferry::profiler::importers {

// Which element of an array was read, for what is said of it later.
struct Element {
  std::int64_t index = 0;
  std::uint64_t offset = 0;  // its first byte
};

// All throw as JsonReader does, and ParseError for a field that is missing, there twice, of another type or out of
// range: "name: byte N: field 'copies[3].size' is not an integer".
class RecordReader {
 public:
  // Refers to the reader: it must outlive this.
  explicit RecordReader(JsonReader& json) : json_(json) {}

  // Reads the object that is next: the value of each field, whatever their order, by read("name", field), which calls
  // one of the functions below. What is no field is skipped.
  template <class Record, class Read>
  void object(Record& record, Read read) {
    expect(JsonReader::Type::object, "is not an object");
    const std::uint64_t begin = value_at_;
    json_.begin_object();
    FieldOfKey<Read> field_of_key{*this, read};
    for (std::string_view key; json_.next_key(key);) {
      field_of_key.start(key);
      fields(field_of_key, record);
      if (!field_of_key.found) json_.skip();
    }
    MissingField missing{field_of_key.seen};
    fields(missing, record);
    if (missing.name != nullptr) fail_field(begin, missing.name, "is missing");
  }

  template <class T>
  void field(const char* name, T& value) {
    path_.push_back({name});
    decode(value);
    path_.pop_back();
  }

  // A field that is an array: each element is read into `value`, then take(value, Element) is called.
  template <class T, class Take>
  void elements(const char* name, T& value, Take take) {
    path_.push_back({name});
    decode_elements(value, take);
    path_.pop_back();
  }

 private:
  struct Place {
    const char* name;
    std::int64_t element = -1;
  };

  // Visitors of a record's fields.
  template <class Read>
  struct FieldOfKey {
    RecordReader& reader;
    Read& read;
    std::string_view key{};
    std::uint64_t bit = 0, seen = 0;
    bool found = false;

    void start(std::string_view next_key) {
      key = next_key;
      bit = 1;
      found = false;
    }
    template <class T>
    void operator()(const char* name, T& value) {
      if (!found && key == name) {
        found = true;  // reading the value moves the key
        if ((seen & bit) != 0) reader.fail_field(reader.json_.offset(), name, "is there twice");
        seen |= bit;
        read(name, value);
      }
      bit <<= 1;
    }
  };
  struct MissingField {
    std::uint64_t seen;
    const char* name = nullptr;

    template <class T>
    void operator()(const char* field, T&) {
      if ((seen & 1) == 0 && name == nullptr) name = field;
      seen >>= 1;
    }
  };

  // Goes to the next value. Throws: EndOfInput where there is none.
  JsonReader::Type next();
  // As next, and requires the type.
  void expect(JsonReader::Type type, std::string_view otherwise);
  std::string_view scalar(std::string_view otherwise);
  [[noreturn]] void fail(std::string_view what) const;
  // Of a field of the object that is read.
  [[noreturn]] void fail_field(std::uint64_t offset, const char* name, std::string_view what) const;
  std::string path() const;

  void decode(bool& value);
  void decode(double& value);
  void decode(std::string& value);
  void decode(Nanoseconds& value);
  void decode(Bytes& value) { decode(value.count); }
  void decode(Device& value);
  void decode(DType& value);
  void decode(Shape& value);

  template <std::integral T>
  void decode(T& value) {
    const std::string_view text = scalar("is not an integer");
    const char* const end = text.data() + text.size();
    std::int64_t negative = 0;
    auto result = std::from_chars(text.data(), end, value);
    if (std::is_unsigned_v<T> && text.starts_with('-')) {
      result = std::from_chars(text.data(), end, negative);
      if (result.ec == std::errc{}) result.ec = std::errc::result_out_of_range;
    }
    if (result.ptr != end || result.ec == std::errc::invalid_argument) fail("is not an integer");
    if (result.ec != std::errc{}) fail("is out of range");
  }

  template <class T>
  requires std::is_enum_v<T>
  void decode(T& value) {
    const auto known = names(value);
    if (next() == JsonReader::Type::text) {
      const std::string_view text = json_.text();
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (text == known[i]) return void(value = static_cast<T>(i));
      }
    }
    fail(fmt::format("is none of {}", fmt::join(known, ", ")));
  }

  template <class T>
  void decode(std::vector<T>& values) {
    values.clear();
    T value{};
    decode_elements(value, [&](const T& element, const Element&) { values.push_back(element); });
  }

  template <class Record>
  void decode(Record& record) {
    object(record, [this](const char* name, auto& value) { field(name, value); });
  }

  template <class T, class Take>
  void decode_elements(T& value, Take take) {
    expect(JsonReader::Type::array, "is not an array");
    json_.begin_array();
    const std::size_t level = path_.size() - 1;
    for (std::int64_t i = 0; json_.next_element(); ++i) {
      path_[level].element = i;
      next();
      const Element element{i, value_at_};
      decode(value);
      take(value, element);
    }
    path_[level].element = -1;
  }

  JsonReader& json_;
  std::vector<Place> path_;
  std::uint64_t value_at_ = 0;  // where the value that is read begins
};

}  // namespace ferry::profiler::importers
