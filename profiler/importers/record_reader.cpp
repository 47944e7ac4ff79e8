#include "profiler/importers/record_reader.h"

#include <algorithm>

#include "src/base/check.h"

namespace ferry::profiler::importers {
namespace {

// What a trace holds may be any bytes, and an error is one line.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

}  // namespace

JsonReader::Type RecordReader::next() {
  const JsonReader::Type type = json_.next_type();
  value_at_ = json_.offset();
  if (type == JsonReader::Type::end) throw EndOfInput{value_at_};
  return type;
}

void RecordReader::expect(JsonReader::Type type, std::string_view otherwise) {
  if (next() != type) fail(otherwise);
}

std::string_view RecordReader::scalar(std::string_view otherwise) {
  expect(JsonReader::Type::scalar, otherwise);
  return json_.text();
}

std::string RecordReader::path() const {
  std::string path;
  for (const Place& place : path_) {
    if (!path.empty()) path += '.';
    path += place.name;
    if (place.element >= 0) path += fmt::format("[{}]", place.element);
  }
  return path;
}

void RecordReader::fail(std::string_view what) const {
  json_.fail_at(value_at_, one_line(fmt::format("field '{}' {}", path(), what)));
}

void RecordReader::fail_field(std::uint64_t offset, const char* name, std::string_view what) const {
  const std::string parent = path();
  json_.fail_at(offset, fmt::format("field '{}{}{}' {}", parent, parent.empty() ? "" : ".", name, what));
}

void RecordReader::decode(bool& value) {
  const std::string_view text = scalar("is not true or false");
  if (text != "true" && text != "false") fail("is not true or false");
  value = text == "true";
}

void RecordReader::decode(double& value) {
  const std::string_view text = scalar("is not a number");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) fail("is not a number");
}

void RecordReader::decode(std::string& value) {
  expect(JsonReader::Type::text, "is not a string");
  value = json_.text();
}

void RecordReader::decode(Nanoseconds& value) {
  std::int64_t count = 0;
  decode(count);
  value = Nanoseconds(count);
}

void RecordReader::decode(Device& value) {
  expect(JsonReader::Type::text, "is not a string");
  try {
    value = parse_device(json_.text());
  } catch (const InvalidArgument& error) {
    fail(fmt::format("cannot be read: {}", error.what()));
  }
}

void RecordReader::decode(DType& value) {
  expect(JsonReader::Type::text, "is not a string");
  try {
    value = parse_dtype(json_.text());
  } catch (const InvalidArgument& error) {
    fail(fmt::format("cannot be read: {}", error.what()));
  }
}

void RecordReader::decode(Shape& value) {
  value = {};
  std::int64_t extent = 0;
  decode_elements(extent, [&](std::int64_t, const Element& element) {
    if (element.index == kMaxRank) {
      path_.back().element = -1;
      fail(fmt::format("has more than {} axes", kMaxRank));
    }
    value.push_back(extent);
  });
}

}  // namespace ferry::profiler::importers
