#include "profiler/importers/json_reader.h"

#include <cstring>

#include "profiler/importers/scan.h"
#include "src/base/check.h"

namespace ferry::profiler::importers {
namespace {

constexpr std::size_t kBufferSize = std::size_t{1} << 18;
// Longer strings are no trace's.
constexpr std::size_t kLongestString = std::size_t{1} << 26;

bool is_space(char c) { return static_cast<unsigned char>(c) <= 0x20; }

bool is_scalar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' || c == '.';
}

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

std::string shown(char c) {
  if (c > 0x20 && c < 0x7f) return fmt::format("'{}'", c);
  return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(c));
}

}  // namespace

JsonReader::JsonReader(std::unique_ptr<ByteSource> source, std::string name)
    : source_(std::move(source)),
      name_(std::move(name)),
      buffer_(std::make_unique_for_overwrite<char[]>(kBufferSize)),
      size_(kBufferSize) {
  p_ = end_ = buffer_.get();
  const char* keep = p_;
  while (end_ - p_ < std::ssize(kByteOrderMark) && refill(keep)) {
  }
  if (std::string_view(p_, end_).starts_with(kByteOrderMark)) p_ += kByteOrderMark.size();
}

void JsonReader::fail_at(std::uint64_t offset, std::string_view message) const {
  throw ParseError(fmt::format("{}: byte {}: {}", name_, offset, message));
}

// Reads on behind end_. What begins at `keep` stays, perhaps elsewhere: `keep` and p_ follow it.
bool JsonReader::refill(const char*& keep) {
  char* const begin = buffer_.get();
  const std::size_t kept = static_cast<std::size_t>(end_ - keep), at = static_cast<std::size_t>(p_ - keep);
  passed_ += static_cast<std::uint64_t>(keep - begin);
  if (kept >= size_ / 2) {
    if (kept >= kLongestString) fail("a string of more than 64 MiB");
    auto larger = std::make_unique_for_overwrite<char[]>(size_ * 2);
    std::memcpy(larger.get(), keep, kept);
    buffer_ = std::move(larger);
    size_ *= 2;
  } else if (kept > 0) {
    std::memmove(begin, keep, kept);
  }
  const std::size_t got = source_->read(buffer_.get() + kept, size_ - kept);
  keep = buffer_.get();
  p_ = keep + at;
  end_ = keep + kept + got;
  return got > 0;
}

// The next character that is no space, without taking it; 0 at the end of the input.
char JsonReader::peek() {
  for (;;) {
    while (p_ != end_ && is_space(*p_)) ++p_;
    if (p_ != end_) return *p_;
    const char* keep = p_;
    if (!refill(keep)) return 0;
  }
}

void JsonReader::expect_value() {
  if (!colon_pending_) return;
  colon_pending_ = false;
  const char c = peek();
  if (c == 0) throw EndOfInput{offset()};
  if (c != ':') fail(fmt::format("expected ':' after a key, found {}", shown(c)));
  ++p_;
}

JsonReader::Type JsonReader::next_type() {
  expect_value();
  switch (peek()) {
    case 0:
      return Type::end;
    case '{':
      return Type::object;
    case '[':
      return Type::array;
    case '"':
      return Type::text;
    default:
      return Type::scalar;
  }
}

void JsonReader::begin_object() {
  expect_value();
  const char c = peek();
  if (c == 0) throw EndOfInput{offset()};
  if (c != '{') fail(fmt::format("expected an object, found {}", shown(c)));
  ++p_;
  fresh_ = true;
}

void JsonReader::begin_array() {
  expect_value();
  const char c = peek();
  if (c == 0) throw EndOfInput{offset()};
  if (c != '[') fail(fmt::format("expected an array, found {}", shown(c)));
  ++p_;
  fresh_ = true;
}

bool JsonReader::next_key(std::string_view& key) {
  char c = peek();
  if (c == ',' && !fresh_) {
    ++p_;
    c = peek();
  } else if (c != 0 && c != '}' && !fresh_) {
    fail(fmt::format("expected ',' or '}}' after a value, found {}", shown(c)));
  }
  fresh_ = false;
  if (c == 0) throw EndOfInput{offset()};
  if (c == '}') {
    ++p_;
    return false;
  }
  if (c != '"') fail(fmt::format("expected a key in quotes, found {}", shown(c)));
  key = string();
  colon_pending_ = true;
  return true;
}

bool JsonReader::next_element() {
  char c = peek();
  if (c == ',' && !fresh_) {
    ++p_;
    c = peek();
  } else if (c != 0 && c != ']' && !fresh_) {
    fail(fmt::format("expected ',' or ']' after an element, found {}", shown(c)));
  }
  fresh_ = false;
  if (c == 0) throw EndOfInput{offset()};
  if (c != ']') return true;
  ++p_;
  return false;
}

std::string_view JsonReader::text() {
  expect_value();
  const char c = peek();
  if (c == 0) throw EndOfInput{offset()};
  return c == '"' ? string() : scalar();
}

// Requires: a quote is next.
std::string_view JsonReader::string() {
  const char* begin = ++p_;
  for (;;) {
    p_ = find_quote(p_, end_);
    if (p_ != end_) break;
    if (!refill(begin)) throw EndOfInput{offset()};
  }
  if (*p_ == '\\') return string_with_escapes(begin);
  const std::string_view text(begin, static_cast<std::size_t>(p_ - begin));
  ++p_;
  return text;
}

std::string_view JsonReader::string_with_escapes(const char* begin) {
  scratch_.assign(begin, p_);
  for (;;) {
    // p_ is at a backslash, a quote or the end of the buffer.
    if (p_ == end_) {
      const char* keep = p_;
      if (!refill(keep)) throw EndOfInput{offset()};
    } else if (*p_ == '"') {
      ++p_;
      return scratch_;
    } else if (*p_ == '\\') {
      ++p_;
      append_escape();
    }
    if (scratch_.size() > kLongestString) fail("a string of more than 64 MiB");
    const char* const from = p_;
    p_ = find_quote(p_, end_);
    scratch_.append(from, p_);
  }
}

void JsonReader::append_escape() {
  const char* keep = p_;
  if (p_ == end_ && !refill(keep)) throw EndOfInput{offset()};
  const char c = *p_++;
  static constexpr std::string_view kLetters = "bfnrt\"\\/", kMeanings = "\b\f\n\r\t\"\\/";
  if (const std::size_t at = kLetters.find(c); at != std::string_view::npos) {
    scratch_ += kMeanings[at];
  } else if (c == 'u') {
    unsigned code = hex4();
    // The second half of a pair follows in an escape of its own; a lone half is no character.
    if (code >= 0xd800 && code < 0xdc00 && end_ - p_ >= 6 && p_[0] == '\\' && p_[1] == 'u') {
      p_ += 2;
      const unsigned low = hex4();
      code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
    } else if (code >= 0xd800 && code < 0xe000) {
      code = 0xfffd;
    }
    append_utf8(scratch_, code);
  } else {
    scratch_ += '\\';
    scratch_ += c;
  }
}

unsigned JsonReader::hex4() {
  unsigned code = 0;
  for (int i = 0; i < 4; ++i) {
    const char* keep = p_;
    if (p_ == end_ && !refill(keep)) throw EndOfInput{offset()};
    const char c = *p_;
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      code = code * 16 + static_cast<unsigned>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      code = code * 16 + static_cast<unsigned>(lower - 'a' + 10);
    } else {
      fail(fmt::format("expected four hexadecimal digits after \\u, found {}", shown(c)));
    }
    ++p_;
  }
  return code;
}

std::string_view JsonReader::scalar() {
  const char* begin = p_;
  for (;;) {
    while (p_ != end_ && is_scalar(*p_)) ++p_;
    if (p_ != end_) break;
    // A number at the very end of the input is whole only if nothing encloses it, which no trace does.
    if (!refill(begin)) throw EndOfInput{offset()};
  }
  if (p_ == begin) fail(fmt::format("expected a value, found {}", shown(*p_)));
  return {begin, static_cast<std::size_t>(p_ - begin)};
}

void JsonReader::skip() {
  expect_value();
  const char c = peek();
  if (c == 0) throw EndOfInput{offset()};
  if (c == '"') {
    skip_string();
  } else if (c == '{' || c == '[') {
    skip_container();
  } else {
    scalar();
  }
}

void JsonReader::skip_string() {
  ++p_;
  for (bool escaped = false;;) {
    if (p_ == end_) {
      const char* keep = p_;
      if (!refill(keep)) throw EndOfInput{offset()};
    }
    if (escaped) {
      ++p_;
      escaped = false;
      continue;
    }
    p_ = find_quote(p_, end_);
    if (p_ == end_) continue;
    if (*p_++ == '"') return;
    escaped = true;
  }
}

void JsonReader::skip_container() {
  std::uint64_t depth = 0;
  do {
    p_ = find_structure(p_, end_);
    if (p_ == end_) {
      const char* keep = p_;
      if (!refill(keep)) throw EndOfInput{offset()};
    } else if (*p_ == '"') {
      skip_string();
    } else {
      depth = (*p_ | 0x20) == '{' ? depth + 1 : depth - 1;
      ++p_;
    }
  } while (depth > 0);
  fresh_ = false;
}

}  // namespace ferry::profiler::importers
