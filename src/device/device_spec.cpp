#include "src/device/device_spec.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "src/base/check.h"
#include "src/device/builtin_specs.h"

namespace ferry {
namespace {

using nlohmann::json;

Nanoseconds from_seconds(double seconds) { return Nanoseconds(std::llround(seconds * 1e9)); }

// One JSON object of a spec: hands out its fields, and complains about those that nobody asked for.
class Fields {
 public:
  Fields(const json& object, std::string path, const std::string& file, DeviceSpec& spec)
      : object_(object), path_(std::move(path)), file_(file), spec_(spec) {
    FERRY_CHECK(object.is_object(), ParseError, "{}: {} must be an object", file_, path_.empty() ? "the spec" : path_);
  }

  Fields group(const std::string& name) { return Fields(get(name), full(name), file_, spec_); }

  std::string text(const std::string& name) {
    const json& value = get(name);
    FERRY_CHECK(value.is_string() && !value.get_ref<const std::string&>().empty(), ParseError,
                "{}: {} must be a text that is not empty", file_, full(name));
    return value.get<std::string>();
  }

  // {"<unit>": number, "source": text}; the source is kept in the spec.
  double figure(const std::string& name, const std::string& unit) {
    Fields field = group(name);
    const json& value = field.get(unit);
    FERRY_CHECK(value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>()), ParseError,
                "{}: {} must be a positive number", file_, field.full(unit));
    spec_.sources.emplace_back(full(name), field.text("source"));
    field.finish();
    return value.get<double>();
  }

  double fraction(const std::string& name) {
    const double value = figure(name, "fraction");
    FERRY_CHECK(value <= 1, ParseError, "{}: {}.fraction is {}, it cannot be above 1", file_, full(name), value);
    return value;
  }

  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      FERRY_CHECK(asked_.contains(name), ParseError, "{}: unknown field {}; known here: {}", file_, full(name),
                  fmt::join(asked_, ", "));
    }
  }

 private:
  const json& get(const std::string& name) {
    asked_.insert(name);
    const auto found = object_.find(name);
    FERRY_CHECK(found != object_.end(), ParseError, "{}: missing field {}", file_, full(name));
    return *found;
  }
  std::string full(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

  const json& object_;
  std::string path_;
  const std::string& file_;
  DeviceSpec& spec_;
  std::set<std::string> asked_;
};

LinkSpec read_link(Fields link) {
  LinkSpec spec;
  spec.bytes_per_second = link.figure("bandwidth", "bytes_per_second");
  spec.latency = Nanoseconds(std::llround(link.figure("latency", "nanoseconds")));
  link.finish();
  return spec;
}

json parse_json(std::string_view text, const std::string& file) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& error) {
    throw ParseError(fmt::format("{}: no JSON at byte {}: {}", file, error.byte, error.what()));
  } catch (const json::out_of_range& error) {  // a number that no double holds
    throw ParseError(fmt::format("{}: {}", file, error.what()));
  }
}

DeviceSpec parse_spec(std::string_view text, const std::string& file) {
  const json document = parse_json(text, file);
  DeviceSpec spec;
  Fields fields(document, "", file, spec);
  spec.name = fields.text("name");
  spec.description = fields.text("description");
  spec.memory = Bytes{std::llround(fields.figure("memory", "bytes"))};
  spec.bytes_per_second = fields.figure("bandwidth", "bytes_per_second");

  Fields flops = fields.group("throughput");
  for (int i = 0; i < kDTypeCount; ++i) {
    spec.flops_per_second[i] = flops.figure(std::string(name_of(static_cast<DType>(i))), "operations_per_second");
  }
  flops.finish();

  Fields efficiency = fields.group("efficiency");
  for (int i = 0; i < kOpClassCount; ++i) {
    spec.efficiency[i] = efficiency.fraction(std::string(name_of(static_cast<OpClass>(i))));
  }
  efficiency.finish();

  spec.kernel_cost = Nanoseconds(std::llround(fields.figure("kernel_cost", "nanoseconds")));
  spec.launch_cost = Nanoseconds(std::llround(fields.figure("launch_cost", "nanoseconds")));
  spec.allocation_cost = Nanoseconds(std::llround(fields.figure("allocation_cost", "nanoseconds")));
  spec.host_to_device = read_link(fields.group("host_to_device"));
  spec.device_to_host = read_link(fields.group("device_to_host"));
  spec.pageable_factor = fields.fraction("pageable_factor");
  fields.finish();
  return spec;
}

bool is_path(const std::string& name) { return name.find('/') != std::string::npos || name.ends_with(".json"); }

}  // namespace

Nanoseconds DeviceSpec::duration(const Cost& cost) const {
  const double reached = efficiency[static_cast<std::size_t>(cost.op_class)];
  const double compute = cost.flops / (flops_per_second[static_cast<std::size_t>(cost.dtype)] * reached);
  const double memory_traffic = cost.bytes / (bytes_per_second * reached);
  return from_seconds(std::max(compute, memory_traffic)) + kernel_cost;
}

Nanoseconds DeviceSpec::copy_duration(Bytes size, CopyDirection direction, HostMemory host_memory) const {
  const double bytes = static_cast<double>(size.count);
  if (direction == CopyDirection::device_to_device || direction == CopyDirection::host_to_host) {
    return duration({.op_class = OpClass::copy, .bytes = 2 * bytes});
  }
  const LinkSpec& link = direction == CopyDirection::host_to_device ? host_to_device : device_to_host;
  const double factor = host_memory == HostMemory::pageable ? pageable_factor : 1;
  return link.latency + from_seconds(bytes / (link.bytes_per_second * factor));
}

std::vector<std::string> device_spec_names() {
  std::vector<std::string> names;
  for (const BuiltinSpec& spec : builtin_specs()) names.emplace_back(spec.name);
  return names;
}

DeviceSpec load_device_spec(const std::string& name_or_path) {
  if (is_path(name_or_path)) {
    std::ifstream file(name_or_path, std::ios::binary);
    const bool readable = file && !std::filesystem::is_directory(name_or_path);
    FERRY_CHECK(readable, ParseError, "{}: cannot be read as a device spec", name_or_path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return parse_spec(text, name_or_path);
  }
  for (const BuiltinSpec& spec : builtin_specs()) {
    if (spec.name == name_or_path) return parse_spec(spec.json, name_or_path + ".json");
  }
  std::vector<std::string> gpus = device_spec_names();
  std::erase(gpus, "host");  // the model of the CPU
  throw InvalidArgument(fmt::format("unknown device spec '{}'; presets: {}; or give the path of a JSON file",
                                    name_or_path, fmt::join(gpus, ", ")));
}

}  // namespace ferry
