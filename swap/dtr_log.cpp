#include "swap/dtr_log.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/base/check.h"

namespace ferry::swap {
namespace {

using nlohmann::json;

// Non-empty lines with their numbers.
class Lines {
 public:
  Lines(std::string_view text, std::string_view file) : rest_(text), file_(file) {}

  std::optional<json> next() {
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++number_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.empty()) continue;
      json object = json::parse(line, nullptr, false);
      if (!object.is_object()) fail("is no JSON object");
      return object;
    }
    return std::nullopt;
  }

  json expect(const char* instruction, const std::string& tensor) {
    std::optional<json> line = next();
    if (!line || line->value("INSTRUCTION", "") != instruction || line->value("NAME", "") != tensor)
      fail(fmt::format("should be the {} of '{}'", instruction, tensor));
    return *std::move(line);
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw ParseError(fmt::format("{}:{}: the line {}", file_, number_, what));
  }

 private:
  std::string_view rest_, file_;
  std::int64_t number_ = 0;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : lines_(text, file) {}

  Iteration read() {
    while (std::optional<json> line = lines_.next()) instruction(*line);
    if (builder_.so_far().ops.empty()) lines_.fail("is the last one and no op was called");
    return std::move(builder_).build();
  }

 private:
  using Names = std::vector<std::string>;

  const std::string& text(const json& line, const char* field) const {
    const auto found = line.find(field);
    if (found == line.end() || !found->is_string()) lines_.fail(fmt::format("has no text field '{}'", field));
    return found->get_ref<const std::string&>();
  }

  std::int64_t number(const json& line, const char* field) const {
    const std::string& digits = text(line, field);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    // Sums of such numbers must not overflow either.
    if (error != std::errc{} || end != digits.data() + digits.size() || value < -1 || value > (std::int64_t{1} << 50))
      lines_.fail(fmt::format("has '{}' as {}, which is no number from 0 to 2^50", digits, field));
    return value;
  }

  std::int64_t amount(const json& line, const char* field) const {
    const std::int64_t value = number(line, field);
    if (value < 0) lines_.fail(fmt::format("has a negative {}", field));
    return value;
  }

  const json& array(const json& line, const char* field) const {
    const auto found = line.find(field);
    if (found == line.end() || !found->is_array()) lines_.fail(fmt::format("has no array field '{}'", field));
    return *found;
  }

  Names names(const json& line, const char* field) const {
    Names result;
    for (const json& name : array(line, field)) {
      if (!name.is_string()) lines_.fail(fmt::format("has something else than names in '{}'", field));
      result.push_back(name.get<std::string>());
    }
    return result;
  }

  TensorIndex tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) lines_.fail(fmt::format("uses '{}', which is not defined (any more)", name));
    return found->second;
  }

  void define(const std::string& name, TensorIndex tensor) {
    if (!tensors_.emplace(name, tensor).second) lines_.fail(fmt::format("defines '{}' again", name));
  }

  void instruction(const json& line) {
    const std::string& kind = text(line, "INSTRUCTION");
    if (kind == "ANNOTATE") return annotate(line);
    if (kind == "CONSTANT") return constant(line);
    if (kind == "CALL") return call(line);
    if (kind == "MUTATE") return mutate(line);
    if (kind == "COPY") return copy(line);
    if (kind == "COPY_FROM") return copy_from(line);
    if (kind == "RELEASE") return release(text(line, "NAME"));
    lines_.fail(fmt::format("has the unknown instruction '{}'", kind));
  }

  void annotate(const json& line) {
    if (text(line, "ANNOTATION") != "START") return;
    builder_ = {};
    tensors_.clear();
  }

  void constant(const json& line) {
    const std::string name = text(line, "NAME");
    const std::int64_t bytes = amount(lines_.expect("MEMORY", name), "MEMORY");
    define(name, builder_.add_input(name, Bytes{bytes}, IterationBuilder::Residency::pinned));
  }

  std::vector<TensorIndex> arguments(const json& line) const {
    std::vector<TensorIndex> result;
    for (const std::string& name : names(line, "ARGS")) result.push_back(tensor(name));
    return result;
  }

  void call(const json& line) {
    const std::vector<TensorIndex> inputs = arguments(line);
    const Nanoseconds time(amount(line, "TIME"));
    const Names results = names(line, "RESULT");
    std::vector<IterationBuilder::Output> outputs;
    for (const std::string& result : results) {
      const std::int64_t bytes = amount(lines_.expect("MEMORY", result), "MEMORY");
      const std::int64_t alias = number(lines_.expect("ALIAS", result), "ALIAS");
      if (alias >= std::ssize(inputs)) lines_.fail(fmt::format("makes '{}' an alias of no argument", result));
      outputs.push_back({.name = result,
                         .size = Bytes{bytes},
                         .view_of = alias < 0 ? kNone : inputs[static_cast<std::size_t>(alias)]});
    }
    const TensorIndex first = builder_.run(text(line, "NAME"), time, inputs, std::move(outputs));
    for (std::size_t i = 0; i < results.size(); ++i) define(results[i], first + static_cast<TensorIndex>(i));
  }

  void mutate(const json& line) {
    const Names arguments_by_name = names(line, "ARGS");
    const std::vector<TensorIndex> inputs = arguments(line);
    std::vector<std::string> changed;
    std::vector<IterationBuilder::Output> outputs;
    for (const json& position : array(line, "MUTATE")) {
      if (!position.is_number_unsigned() || position.get<std::uint64_t>() >= inputs.size())
        lines_.fail("changes an argument that it does not have");
      const auto i = position.get<std::size_t>();
      const Iteration& known = builder_.so_far();
      const StorageIndex storage = known.tensors[static_cast<std::size_t>(inputs[i])].storage;
      changed.push_back(arguments_by_name[i]);
      outputs.push_back({.name = changed.back() + "$", .size = known.storages[static_cast<std::size_t>(storage)].size});
    }
    const TensorIndex first =
        builder_.run(text(line, "NAME"), Nanoseconds(amount(line, "TIME")), inputs, std::move(outputs));
    for (std::size_t i = 0; i < changed.size(); ++i) rebind(changed[i], first + static_cast<TensorIndex>(i));
  }

  void rebind(const std::string& name, TensorIndex to) { builder_.release(std::exchange(tensors_.at(name), to)); }

  void copy(const json& line) {
    const TensorIndex source = tensor(text(line, "SRC"));
    define(text(line, "DST"), source);
    builder_.retain(source);
  }

  void copy_from(const json& line) {
    const TensorIndex source = tensor(text(line, "SRC"));
    tensor(text(line, "DST"));
    builder_.retain(source);
    rebind(text(line, "DST"), source);
  }

  void release(const std::string& name) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return;
    builder_.release(found->second);
    tensors_.erase(found);
  }

  Lines lines_;
  IterationBuilder builder_;
  std::unordered_map<std::string, TensorIndex> tensors_;
};

}  // namespace

Iteration read_dtr_log(std::string_view text, std::string_view name) { return Reader(text, name).read(); }

bool is_dtr_log(std::string_view text) {
  const std::size_t begin = text.find_first_not_of("\r\n");
  if (begin == std::string_view::npos) return false;
  const json line = json::parse(text.substr(begin, text.find('\n', begin) - begin), nullptr, false);
  return line.is_object() && line.contains("INSTRUCTION");
}

}  // namespace ferry::swap
