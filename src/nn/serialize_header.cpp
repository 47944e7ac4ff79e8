#include "src/nn/serialize_header.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "src/base/check.h"

namespace ferry::nn {
namespace {

using Json = nlohmann::ordered_json;

// The bound of the format's reference implementation: a damaged length must not ask for all memory.
constexpr std::int64_t kMaxHeader = 100'000'000;

constexpr std::string_view kNames[kDTypeCount] = {"F32", "F64", "F16", "BF16", "I32", "I64", "U8", "BOOL"};

// Where a message points to: the file, and the tensor once it is known.
struct Place {
  const std::string& path;
  std::string tensor{};

  template <class... Arguments>
  [[noreturn]] void fail(std::int64_t byte, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    const std::string about = tensor.empty() ? "" : fmt::format("tensor '{}': ", tensor);
    throw ParseError(fmt::format("{}: byte {}: {}{}", path, byte, about,
                                 fmt::format(format, std::forward<Arguments>(arguments)...)));
  }
};

// nlohmann keeps the last of two equal keys without a word, which would hide a tensor.
Json parse_json(std::string_view text, const Place& place) {
  std::set<std::string> names;
  std::string repeated;
  const auto note_names = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (depth == 1 && event == Json::parse_event_t::key && !names.insert(value.get<std::string>()).second) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(text, note_names);
    if (!json.is_object()) place.fail(kLengthBytes, "the header is no JSON object");
    if (!repeated.empty()) place.fail(kLengthBytes, "the header names '{}' twice", repeated);
    return json;
  } catch (const Json::parse_error& error) {
    const auto at = static_cast<std::int64_t>(error.byte);
    place.fail(kLengthBytes + std::max<std::int64_t>(at - 1, 0), "the header is no JSON: {}", error.what());
  } catch (const Json::out_of_range& error) {  // a number that no double holds
    place.fail(kLengthBytes, "the header's JSON: {}", error.what());
  }
}

const Json& member(const Json& object, const char* key, const Place& place) {
  if (!object.is_object() || !object.contains(key)) place.fail(kLengthBytes, "'{}' is missing", key);
  return object[key];
}

std::int64_t natural(const Json& value, const char* what, const Place& place) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    place.fail(kLengthBytes, "{} holds {}, which is no natural number", what, value.dump());
  }
  return value.get<std::int64_t>();
}

DType parse_type(const Json& value, const Place& place) {
  const auto* const found =
      std::find(std::begin(kNames), std::end(kNames), value.is_string() ? value.get<std::string>() : std::string());
  if (found == std::end(kNames)) {
    place.fail(kLengthBytes, "dtype {} is none of {}", value.dump(), fmt::join(kNames, ", "));
  }
  return static_cast<DType>(found - std::begin(kNames));
}

Shape parse_shape(const Json& value, const Place& place) {
  if (!value.is_array()) place.fail(kLengthBytes, "shape {} is no array", value.dump());
  if (value.size() > static_cast<std::size_t>(kMaxRank)) {
    place.fail(kLengthBytes, "shape {} has more than {} axes", value.dump(), kMaxRank);
  }
  Shape shape;
  for (const Json& extent : value) shape.push_back(natural(extent, "shape", place));
  return shape;
}

// The bytes that a tensor needs.
std::int64_t bytes_of(const TensorEntry& entry, const Place& place) {
  std::int64_t bytes = size_of(entry.dtype);
  for (const std::int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      place.fail(kLengthBytes, "shape {} has more elements than fit into memory", to_string(entry.shape));
    }
  }
  return bytes;
}

TensorEntry parse_entry(const std::string& name, const Json& json, const std::string& path) {
  const Place place{path, name};
  TensorEntry entry;
  entry.name = name;
  entry.dtype = parse_type(member(json, "dtype", place), place);
  entry.shape = parse_shape(member(json, "shape", place), place);
  const Json& offsets = member(json, "data_offsets", place);
  if (!offsets.is_array() || offsets.size() != 2) {
    place.fail(kLengthBytes, "data_offsets {} is no pair", offsets.dump());
  }
  entry.begin = natural(offsets[0], "data_offsets", place);
  entry.end = natural(offsets[1], "data_offsets", place);
  const std::int64_t needed = bytes_of(entry, place);
  if (entry.end < entry.begin || entry.end - entry.begin != needed) {
    place.fail(kLengthBytes, "data_offsets {} do not hold the {} bytes of {} {}", offsets.dump(), needed,
               name_of(entry.dtype), to_string(entry.shape));
  }
  return entry;
}

Metadata parse_metadata(const Json& json, const Place& place) {
  if (!json.is_object()) place.fail(kLengthBytes, "__metadata__ is no JSON object");
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string())
      place.fail(kLengthBytes, "__metadata__ holds {} under '{}', which is no text", value.dump(), key);
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The data is exactly the tensors, one after the other.
void check_layout(const FileHeader& header, std::int64_t file_size, const std::string& path) {
  std::int64_t at = 0;
  for (const TensorEntry& entry : header.entries) {
    const Place place{path, entry.name};
    if (entry.begin < at) place.fail(header.data_start + entry.begin, "overlaps the tensor before it");
    if (entry.begin > at)
      place.fail(header.data_start + at, "{} bytes before it belong to no tensor", entry.begin - at);
    if (entry.end > file_size - header.data_start) {
      place.fail(file_size, "the file ends here, the tensor only at byte {}", header.data_start + entry.end);
    }
    at = entry.end;
  }
  if (header.data_start + at != file_size) {
    Place{path}.fail(header.data_start + at, "{} bytes follow the last tensor", file_size - header.data_start - at);
  }
}

}  // namespace

std::int64_t header_length(std::span<const unsigned char, kLengthBytes> bytes, std::int64_t file_size,
                           const std::string& path) {
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) length = length << 8 | bytes[i];
  const Place place{path};
  if (length > static_cast<std::uint64_t>(kMaxHeader)) {
    place.fail(0, "the header's length {} is over {}: no safetensors file", length, kMaxHeader);
  }
  if (static_cast<std::int64_t>(length) > file_size - kLengthBytes) {
    place.fail(0, "the header's length {} goes past the file's {} bytes", length, file_size);
  }
  return static_cast<std::int64_t>(length);
}

FileHeader parse_header(std::string_view text, std::int64_t file_size, const std::string& path) {
  const Place place{path};
  if (text.empty() || text.front() != '{') place.fail(kLengthBytes, "the header does not start with '{{'");
  FileHeader header;
  header.data_start = kLengthBytes + static_cast<std::int64_t>(text.size());
  const Json json = parse_json(text, place);
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(value, place);
    } else {
      header.entries.push_back(parse_entry(name, value, path));
    }
  }
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(header, file_size, path);
  return header;
}

std::string format_header(std::span<const TensorEntry> entries, const Metadata& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const TensorEntry& entry : entries) {
    json[entry.name] = {{"dtype", kNames[static_cast<int>(entry.dtype)]},
                        {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const Json::type_error& error) {
    throw InvalidArgument(fmt::format("save_tensors: a name or the metadata is no UTF-8 text: {}", error.what()));
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

}  // namespace ferry::nn
