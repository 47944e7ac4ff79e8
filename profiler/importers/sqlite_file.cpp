#include "profiler/importers/sqlite_file.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>

#include "src/base/check.h"

namespace ferry::profiler::importers {
namespace {

std::string as_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                       c == '.' || c == '-' || c == '_';
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  // Nobody writes the file meanwhile, and its folder may be read-only.
  return uri + "?immutable=1";
}

std::string quoted(std::string_view name) { return fmt::format("\"{}\"", name); }

int stop(void*) { return 1; }

// A number of the header, whose bytes are in the order of the network.
std::uint64_t number_at(std::string_view header, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (const char c : header.substr(at, size)) value = value << 8 | static_cast<unsigned char>(c);
  return value;
}

std::uint64_t size_of(const Input& input) {
  if (input.path().empty()) return input.bytes().size();
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(input.path(), error);
  return error ? 0 : size;
}

}  // namespace

void SqliteFile::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void FinalizeStatement::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteFile::SqliteFile(const Input& input) : name_(input.name()) {
  const std::uint64_t size = size_of(input);
  read_header(input.head(), size);
  sqlite3* database = nullptr;
  const std::string path = input.path().empty() ? ":memory:" : as_uri(input.path());
  const int flags = input.path().empty() ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
  const int result = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  database_.reset(database);
  FERRY_CHECK(result == SQLITE_OK, ParseError, "{}: SQLite cannot open it: {}", name_, sqlite3_errstr(result));
  if (input.path().empty()) {
    auto* const bytes = reinterpret_cast<unsigned char*>(const_cast<char*>(input.bytes().data()));
    const int loaded = sqlite3_deserialize(database, "main", bytes, static_cast<sqlite3_int64>(size),
                                           static_cast<sqlite3_int64>(size), SQLITE_DESERIALIZE_READONLY);
    FERRY_CHECK(loaded == SQLITE_OK, ParseError, "{}: SQLite cannot open it: {}", name_, sqlite3_errstr(loaded));
  }
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // Pages that refer to each other in circles would be read for ever: no query of ours takes more steps than this.
  const std::uint64_t steps = std::min<std::uint64_t>(1'000'000 + 64 * size, 0x7fffffff);
  sqlite3_progress_handler(database, static_cast<int>(steps), stop, nullptr);
}

void SqliteFile::read_header(std::string_view head, std::uint64_t size) {
  constexpr std::size_t kHeaderSize = 100;
  FERRY_CHECK(head.size() >= kHeaderSize, ParseError, "{}: byte {}: the file ends within its header", name_, size);
  const std::uint64_t page = number_at(head, 16, 2), pages = number_at(head, 28, 4);
  page_size_ = page == 1 ? 65536 : static_cast<std::int64_t>(page);
  // The count of pages holds where both counts of changes agree: old versions of SQLite did not keep it.
  const std::uint64_t whole = pages * static_cast<std::uint64_t>(page_size_);
  FERRY_CHECK(number_at(head, 24, 4) != number_at(head, 92, 4) || size >= whole, ParseError,
              "{}: byte {}: the file ends, and its header tells of {} bytes", name_, size, whole);
}

std::vector<std::string> SqliteFile::columns(std::string_view table) const {
  std::vector<std::string> names;
  sqlite3_stmt* made = nullptr;
  const std::string query =
      "SELECT c.name FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c "
      "WHERE t.type = 'table' AND t.name = ? AND t.sql NOT LIKE 'CREATE VIRTUAL%'";
  int result = sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &made, nullptr);
  const std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement(made);
  FERRY_CHECK(result == SQLITE_OK, ParseError, "{}: byte 0: {}", name_, sqlite3_errmsg(database_.get()));
  sqlite3_bind_text(made, 1, table.data(), static_cast<int>(table.size()), SQLITE_STATIC);
  while ((result = sqlite3_step(made)) == SQLITE_ROW) {
    const unsigned char* const name = sqlite3_column_text(made, 0);
    if (name != nullptr) names.emplace_back(reinterpret_cast<const char*>(name));
  }
  if (result != SQLITE_DONE) fail(table);
  return names;
}

std::int64_t SqliteFile::first_byte(std::string_view table) const {
  sqlite3_stmt* made = nullptr;
  sqlite3_prepare_v2(database_.get(), "SELECT rootpage FROM sqlite_master WHERE name = ?", -1, &made, nullptr);
  const std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement(made);
  if (made == nullptr) return 0;
  sqlite3_bind_text(made, 1, table.data(), static_cast<int>(table.size()), SQLITE_STATIC);
  if (sqlite3_step(made) != SQLITE_ROW) return 0;
  const std::int64_t page = sqlite3_column_int64(made, 0);
  return page > 0 && page <= 0xffffffff ? (page - 1) * page_size_ : 0;
}

void SqliteFile::fail(std::string_view table) const {
  const std::string message = sqlite3_errmsg(database_.get());
  throw ParseError(
      fmt::format("{}: byte {}: table {}, which begins there: {}", name_, first_byte(table), table, message));
}

TableRows::TableRows(const SqliteFile& file, std::string_view table, const std::vector<std::string_view>& needed,
                     const std::vector<std::string_view>& wanted)
    : file_(file), table_(table), needed_(needed.size()) {
  const std::vector<std::string> present = file.columns(table);
  std::vector<std::string_view> names(needed);
  names.insert(names.end(), wanted.begin(), wanted.end());
  std::string list;
  int position = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool is_there = std::find(present.begin(), present.end(), names[i]) != present.end();
    positions_.push_back(is_there ? position++ : -1);
    if (is_there) list += (list.empty() ? "" : ", ") + quoted(names[i]);
    if (!is_there && i < needed_ && !present.empty())
      missing_ += (missing_.empty() ? "" : ", ") + std::string(names[i]);
  }
  if (present.empty() || !missing_.empty() || list.empty()) return;
  exists_ = true;
  sqlite3_stmt* made = nullptr;
  const std::string query = fmt::format("SELECT {} FROM {}", list, quoted(table));
  const int result = sqlite3_prepare_v2(file.database_.get(), query.c_str(), -1, &made, nullptr);
  statement_.reset(made);
  if (result != SQLITE_OK) file.fail(table);
}

bool TableRows::next() {
  while (exists_) {
    const int result = sqlite3_step(statement_.get());
    if (result == SQLITE_DONE) return false;
    if (result != SQLITE_ROW) file_.fail(table_);
    bool complete = true;
    for (std::size_t i = 0; i < needed_; ++i) complete = complete && !is_null(i);
    if (complete) return true;
    ++incomplete_;
  }
  return false;
}

std::int64_t TableRows::integer(std::size_t column, std::int64_t otherwise) const {
  return is_null(column) ? otherwise : sqlite3_column_int64(statement_.get(), positions_[column]);
}

bool TableRows::is_null(std::size_t column) const {
  return positions_[column] < 0 || sqlite3_column_type(statement_.get(), positions_[column]) == SQLITE_NULL;
}

std::string_view TableRows::text(std::size_t column) const {
  if (positions_[column] < 0) return {};
  const unsigned char* const text = sqlite3_column_text(statement_.get(), positions_[column]);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), positions_[column]))};
}

}  // namespace ferry::profiler::importers
