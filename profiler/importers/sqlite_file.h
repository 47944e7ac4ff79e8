// A SQLite database that is only read, and may be damaged or made to do harm.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/importers/byte_source.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ferry::profiler::importers {

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const;
};

// Not thread-safe. All throw ParseError where SQLite finds the file damaged, with the table and the byte of its first
// page: SQLite does not say which of its pages it is.
class SqliteFile {
 public:
  // Requires: the input is no memory that goes away while this lives.
  // Throws: ParseError also for a file that is shorter than its header says, of which SQLite reads nothing.
  explicit SqliteFile(const Input& input);

  // The columns of a table; empty where there is no such table (views do not count).
  std::vector<std::string> columns(std::string_view table) const;

 private:
  friend class TableRows;
  void read_header(std::string_view head, std::uint64_t size);
  [[noreturn]] void fail(std::string_view table) const;
  std::int64_t first_byte(std::string_view table) const;
  struct Close {
    void operator()(sqlite3* database) const;
  };

  std::string name_;
  std::int64_t page_size_ = 0;
  std::unique_ptr<sqlite3, Close> database_;
};

// The rows of a table in the order of storage:
//
//   TableRows rows(file, "CUPTI_ACTIVITY_KIND_MEMCPY", {"start", "end"}, {"bytes"});
//   while (rows.next()) use(rows.integer(0), rows.integer(2, 0));
class TableRows {
 public:
  // Columns that every row needs, then columns that may be missing: in the table, or in a row.
  TableRows(const SqliteFile& file, std::string_view table, const std::vector<std::string_view>& needed,
            const std::vector<std::string_view>& wanted);

  // The table is there and has the needed columns; without them there are no rows.
  bool exists() const { return exists_; }
  // The needed columns that an existing table lacks, "" if none.
  const std::string& missing() const { return missing_; }
  bool has(std::size_t column) const { return positions_[column] >= 0; }

  // The next row whose needed columns all have values; rows without are counted.
  bool next();
  std::int64_t integer(std::size_t column, std::int64_t otherwise = 0) const;
  bool is_null(std::size_t column) const;
  // Valid until next().
  std::string_view text(std::size_t column) const;
  std::int64_t incomplete_rows() const { return incomplete_; }

 private:
  const SqliteFile& file_;
  std::string table_, missing_;
  std::size_t needed_ = 0;
  std::vector<int> positions_;  // of the columns in the query; -1: the table lacks it
  std::unique_ptr<sqlite3_stmt, FinalizeStatement> statement_;
  bool exists_ = false;
  std::int64_t incomplete_ = 0;
};

}  // namespace ferry::profiler::importers
