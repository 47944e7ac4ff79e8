// Every exception that ferry throws. Each says what went wrong, where (op and source line), with which values, and
// what to do.
//
// Thread-safety: as std::exception; an error is a value.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include <ferry/units.h>

namespace ferry {

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}

  // Adds the op and the user's source line, once: the innermost call wins, later ones are ignored.
  void locate(std::string_view op, const std::source_location& where);

  const char* what() const noexcept override { return message_.c_str(); }
  bool located() const noexcept { return located_; }

 private:
  std::string message_;
  bool located_ = false;
};

// A value that the callee cannot take: unknown device text, wrong dtype, index out of range.
class InvalidArgument : public Error {
  using Error::Error;
};

// Shapes that do not fit each other or the op.
class ShapeError : public InvalidArgument {
  using InvalidArgument::InvalidArgument;
};

// A device or host allocation that could not be met after cached segments were returned.
class OutOfMemory : public Error {
 public:
  struct Figures {
    Bytes requested;  // asked for by the failing call
    Bytes allocated;  // in use by tensors on that device
    Bytes reserved;   // held by the allocator, in use or cached
    Bytes limit;      // the device's capacity or the budget
  };
  OutOfMemory(std::string message, Figures figures) : Error(std::move(message)), figures_(figures) {}
  const Figures& figures() const noexcept { return figures_; }

 private:
  Figures figures_;
};

// A device call that failed for another reason than memory; `code` is the vendor's error number.
class DeviceError : public Error {
 public:
  DeviceError(std::string message, int code) : Error(std::move(message)), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

// A file or text that could not be read; the message names file and line or byte.
class ParseError : public Error {
  using Error::Error;
};

}  // namespace ferry
