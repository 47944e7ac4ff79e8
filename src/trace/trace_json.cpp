#include "src/trace/trace_json.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <type_traits>
#include <utility>

#include "src/base/check.h"
#include "src/trace/trace_fields.h"

namespace ferry::trace {
namespace {

using nlohmann::json;

// Writer and Reader are visitors of the list of fields.
class Writer {
 public:
  json object = json::object();

  template <class T>
  void operator()(const char* name, const T& value) {
    object[name] = encode(value);
  }

 private:
  static json encode(bool value) { return value; }
  static json encode(double value) { return value; }
  template <class T>
  requires std::is_integral_v<T>
  static json encode(T value) { return value; }
  template <class T>
  requires std::is_enum_v<T>
  static json encode(T value) { return names(value)[static_cast<std::size_t>(value)]; }
  static json encode(const std::string& value) { return value; }
  static json encode(Nanoseconds value) { return value.count(); }
  static json encode(Bytes value) { return value.count; }
  static json encode(Device value) { return to_string(value); }
  static json encode(DType value) { return std::string(name_of(value)); }
  static json encode(const Shape& value) { return std::vector<std::int64_t>(value.begin(), value.end()); }
  template <class T>
  static json encode(const std::vector<T>& values);
};

class Reader {
 public:
  Reader(const json& object, std::string path, std::string_view file)
      : object_(object), path_(std::move(path)), file_(file) {
    if (!object.is_object()) fail(path_, "is not an object");
  }

  template <class T>
  void operator()(const char* name, T& value) const {
    const std::string path = path_.empty() ? name : path_ + "." + name;
    const auto field = object_.find(name);
    if (field == object_.end()) fail(path, "is missing");
    decode(*field, path, value);
  }

  [[noreturn]] void fail(const std::string& path, std::string_view what) const {
    throw ParseError(fmt::format("{}: field '{}' {}", file_, path, what));
  }

 private:
  template <class T>
  requires std::is_integral_v<T>
  void decode(const json& field, const std::string& path, T& value) const {
    if constexpr (std::is_same_v<T, bool>) {
      if (!field.is_boolean()) fail(path, "is not true or false");
      value = field.get<bool>();
    } else {
      if (!field.is_number_integer()) fail(path, "is not an integer");
      // Unsigned numbers above int64 keep their own type in the JSON library.
      const bool fits = field.is_number_unsigned() ? std::in_range<T>(field.get<std::uint64_t>())
                                                   : std::in_range<T>(field.get<std::int64_t>());
      if (!fits) fail(path, "is out of range");
      value = field.get<T>();
    }
  }
  void decode(const json& field, const std::string& path, double& value) const {
    if (!field.is_number()) fail(path, "is not a number");
    value = field.get<double>();
  }
  template <class T>
  requires std::is_enum_v<T>
  void decode(const json& field, const std::string& path, T& value) const {
    if (field.is_string()) {
      const auto known = names(value);
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (field.get_ref<const std::string&>() == known[i]) return void(value = static_cast<T>(i));
      }
    }
    fail(path, fmt::format("is none of {}", fmt::join(names(value), ", ")));
  }
  void decode(const json& field, const std::string& path, std::string& value) const {
    if (!field.is_string()) fail(path, "is not a string");
    value = field.get<std::string>();
  }
  void decode(const json& field, const std::string& path, Nanoseconds& value) const {
    std::int64_t count = 0;
    decode(field, path, count);
    value = Nanoseconds(count);
  }
  void decode(const json& field, const std::string& path, Bytes& value) const { decode(field, path, value.count); }
  void decode(const json& field, const std::string& path, Device& value) const {
    parsed(field, path, [&](const std::string& text) { value = parse_device(text); });
  }
  void decode(const json& field, const std::string& path, DType& value) const {
    parsed(field, path, [&](const std::string& text) { value = parse_dtype(text); });
  }
  template <class Parse>
  void parsed(const json& field, const std::string& path, Parse parse) const {
    std::string text;
    decode(field, path, text);
    try {
      parse(text);
    } catch (const InvalidArgument& error) {
      fail(path, fmt::format("cannot be read: {}", error.what()));
    }
  }
  void decode(const json& field, const std::string& path, Shape& value) const {
    std::vector<std::int64_t> extents;
    decode(field, path, extents);
    if (extents.size() > kMaxRank) fail(path, fmt::format("has more than {} axes", kMaxRank));
    value = Shape(std::span<const std::int64_t>(extents));
  }
  template <class T>
  void decode(const json& field, const std::string& path, std::vector<T>& values) const;

  const json& object_;
  std::string path_;
  std::string_view file_;
};

template <class T>
json Writer::encode(const std::vector<T>& values) {
  json array = json::array();
  for (const T& value : values) {
    if constexpr (std::is_same_v<T, std::string>) {
      array.push_back(value);
    } else {
      Writer nested;
      fields(nested, value);
      array.push_back(std::move(nested.object));
    }
  }
  return array;
}

template <class T>
void Reader::decode(const json& field, const std::string& path, std::vector<T>& values) const {
  if (!field.is_array()) fail(path, "is not an array");
  values.resize(field.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string element = fmt::format("{}[{}]", path, i);
    if constexpr (std::is_same_v<T, std::string> || std::is_integral_v<T>) {
      decode(field[i], element, values[i]);
    } else {
      const Reader nested(field[i], element, file_);
      fields(nested, values[i]);
    }
  }
}

// Everything that reads a trace follows its indices without a look: they are checked here, once.
class IndexCheck {
 public:
  IndexCheck(const Trace& trace, const Reader& reader) : trace_(trace), reader_(reader) {}

  void run() const {
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const OpRecord& op = trace_.ops[i];
      const std::string path = fmt::format("ops[{}]", i);
      names_and_site(path, op.name, "name", op.site, op.scope);
      for (const Argument& argument : op.inputs) index(path, "inputs", argument.tensor, trace_.tensors.size());
      for (const Argument& argument : op.outputs) index(path, "outputs", argument.tensor, trace_.tensors.size());
    }
    for (std::size_t i = 0; i < trace_.copies.size(); ++i) {
      const CopyRecord& copy = trace_.copies[i];
      const std::string path = fmt::format("copies[{}]", i);
      names_and_site(path, copy.op_name, "op_name", copy.site, copy.scope);
      index(path, "tensor", copy.tensor, trace_.tensors.size());
      index(path, "op", copy.op, trace_.ops.size());
    }
    for (std::size_t i = 0; i < trace_.scopes.size(); ++i) {
      index(fmt::format("scopes[{}]", i), "name", trace_.scopes[i].name, trace_.strings.size());
    }
  }

 private:
  void names_and_site(const std::string& path, StringIndex name, const char* field, SiteIndex site,
                      StringIndex scope) const {
    index(path, field, name, trace_.strings.size());
    index(path, "site", site, trace_.sites.size());
    index(path, "scope", scope, trace_.strings.size());
  }
  void index(const std::string& path, const char* field, std::int64_t value, std::size_t size) const {
    if (value < -1 || value >= static_cast<std::int64_t>(size)) {
      reader_.fail(path + "." + field, fmt::format("is {}, which is no index into a table of {}", value, size));
    }
  }

  const Trace& trace_;
  const Reader& reader_;
};

}  // namespace

void write_json(const Trace& trace, std::ostream& out) {
  Writer writer;
  writer("ferry_trace", kTraceVersion);
  fields(writer, trace);
  // Names come from the user's program and may be any bytes.
  out << writer.object.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
}

Trace read_json(std::string_view text, std::string_view name) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    throw ParseError(fmt::format("{}: byte {}: not JSON: {}", name, error.byte, error.what()));
  } catch (const json::out_of_range& error) {  // a number that no double holds
    throw ParseError(fmt::format("{}: a number that does not fit: {}", name, error.what()));
  }
  const Reader reader(document, "", name);
  int version = 0;
  reader("ferry_trace", version);
  if (version != kTraceVersion) {
    reader.fail("ferry_trace", fmt::format("is version {}; this ferry reads version {}", version, kTraceVersion));
  }
  Trace trace;
  fields(reader, trace);
  IndexCheck(trace, reader).run();
  return trace;
}

}  // namespace ferry::trace
