// Reads JSON of any length in one pass, with memory for its longest string only. Made for traces: values that nobody
// wants are stepped over at the speed of a search for quotes and brackets.
//
// Takes what tools write beyond the standard: control characters between values and within strings, commas before a
// closing bracket, NaN and Infinity, unknown escapes (kept as they are), a byte order mark.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "profiler/importers/byte_source.h"

namespace ferry::profiler::importers {

// The input ended within a value, which started at an earlier byte.
struct EndOfInput {
  std::uint64_t offset = 0;
};

// Pulls one value after the other:
//
//   reader.begin_object();
//   for (std::string_view key; reader.next_key(key);) key == "ts" ? use(reader.text()) : reader.skip();
//
// After next_key or next_element one value is read: by text, skip, or begin_… and its members to their end. A view of
// a key or text is valid until the next call.
//
// All throw: ParseError with the byte for what is no JSON, EndOfInput where the input ends too early.
class JsonReader {
 public:
  enum class Type { object, array, text, scalar, end };

  // `name` (a file's) stands in errors.
  JsonReader(std::unique_ptr<ByteSource> source, std::string name);

  // What comes next: Type::end between values at the end of the input.
  Type next_type();
  void begin_object();
  bool next_key(std::string_view& key);  // false: the object has ended
  void begin_array();
  bool next_element();  // false: the array has ended
  // A string without its quotes and escapes, or a number or word as it is written. Requires: text or scalar is next.
  std::string_view text();
  void skip();

  // The byte of the (decompressed) input that is read next.
  std::uint64_t offset() const { return passed_ + static_cast<std::uint64_t>(p_ - buffer_.get()); }
  // Throws ParseError: "name: byte N: message".
  [[noreturn]] void fail(std::string_view message) const { fail_at(offset(), message); }
  [[noreturn]] void fail_at(std::uint64_t offset, std::string_view message) const;

 private:
  bool refill(const char*& keep);
  char peek();
  void expect_value();
  std::string_view string();
  std::string_view string_with_escapes(const char* begin);
  void append_escape();
  unsigned hex4();
  void skip_string();
  void skip_container();
  std::string_view scalar();

  std::unique_ptr<ByteSource> source_;
  std::string name_;
  std::unique_ptr<char[]> buffer_;
  std::size_t size_ = 0;  // of the buffer
  const char* p_ = nullptr;
  const char* end_ = nullptr;
  std::uint64_t passed_ = 0;  // bytes before the buffer
  std::string scratch_;
  bool fresh_ = false;          // a container was just begun
  bool colon_pending_ = false;  // a key was read and its colon not yet: reading it may move the key
};

}  // namespace ferry::profiler::importers
