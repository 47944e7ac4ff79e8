// RecordLog: an append-only log of bytes that one thread writes and another may read meanwhile.
//
// Integers are variable-length and mostly differences to the record before, because the first touch of fresh memory
// costs more than the encoding: an op takes about 30 bytes instead of the 200 of a trace::OpRecord.
// Thread-safety: one writer; readers see every record whose end() had returned.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace ferry::profiler {

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class RecordLog {
  struct Chunk {
    explicit Chunk(std::size_t size) : capacity(size), bytes(std::make_unique_for_overwrite<std::byte[]>(size)) {}
    std::size_t capacity;
    std::atomic<std::size_t> used{0};
    std::atomic<Chunk*> next{nullptr};
    std::unique_ptr<std::byte[]> bytes;
  };

 public:
  static constexpr std::size_t kMaxVarint = 10;

  RecordLog() : first_(new Chunk(kChunkSize)), last_(first_) {}
  ~RecordLog() {
    for (Chunk* chunk = first_; chunk != nullptr;) delete std::exchange(chunk, chunk->next.load());
  }
  RecordLog(const RecordLog&) = delete;
  RecordLog& operator=(const RecordLog&) = delete;

  // Writes one record. Requires: the record is no longer than `longest` bytes given to the constructor.
  class Writer {
   public:
    Writer(RecordLog& log, std::size_t longest) : log_(log), at_(log.reserve(longest)) {}
    ~Writer() { log_.publish(at_); }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    void byte(std::uint8_t value) { *at_++ = static_cast<std::byte>(value); }
    void number(std::uint64_t value) {
      while (value >= 0x80) {
        byte(static_cast<std::uint8_t>(value | 0x80));
        value >>= 7;
      }
      byte(static_cast<std::uint8_t>(value));
    }
    void difference(std::int64_t value) { number(zigzag(value)); }
    template <class T>
    void raw(const T& value) {
      std::memcpy(at_, &value, sizeof(T));
      at_ += sizeof(T);
    }
    void text(std::string_view value) {
      number(value.size());
      // Not memcpy: an empty view may hold a null pointer.
      at_ = std::ranges::transform(value, at_, [](char c) { return static_cast<std::byte>(c); }).out;
    }

   private:
    RecordLog& log_;
    std::byte* at_;
  };

  // Reads from the first record to the last one published when the reader reaches it.
  class Reader {
   public:
    explicit Reader(const RecordLog& log) : chunk_(log.first_) { enter(); }

    // Whether another record follows.
    bool more() {
      while (at_ == end_) {
        // `next` is set after the last record of this chunk was published: look at it first, then at `used` again.
        const Chunk* next = chunk_->next.load(std::memory_order_acquire);
        end_ = chunk_->bytes.get() + chunk_->used.load(std::memory_order_acquire);
        if (at_ != end_) return true;
        if (next == nullptr) return false;
        chunk_ = next;
        enter();
      }
      return true;
    }
    std::uint8_t byte() { return static_cast<std::uint8_t>(*at_++); }
    std::uint64_t number() {
      std::uint64_t value = 0;
      for (int shift = 0;; shift += 7) {
        const std::uint8_t next = byte();
        value |= static_cast<std::uint64_t>(next & 0x7f) << shift;
        if (next < 0x80) return value;
      }
    }
    std::int64_t difference() { return unzigzag(number()); }
    template <class T>
    T raw() {
      T value;
      std::memcpy(&value, at_, sizeof(T));
      at_ += sizeof(T);
      return value;
    }
    std::string_view text() {
      const std::size_t size = number();
      const std::string_view value(reinterpret_cast<const char*>(at_), size);
      at_ += size;
      return value;
    }

   private:
    void enter() {
      at_ = chunk_->bytes.get();
      end_ = at_ + chunk_->used.load(std::memory_order_acquire);
    }

    const Chunk* chunk_;
    const std::byte* at_ = nullptr;
    const std::byte* end_ = nullptr;
  };

 private:
  static constexpr std::size_t kChunkSize = 64 * 1024;

  std::byte* reserve(std::size_t longest) {
    const std::size_t used = last_->used.load(std::memory_order_relaxed);
    if (last_->capacity - used >= longest) [[likely]]
      return last_->bytes.get() + used;
    auto* chunk = new Chunk(std::max(kChunkSize, longest));
    last_->next.store(chunk, std::memory_order_release);
    last_ = chunk;
    return chunk->bytes.get();
  }
  void publish(const std::byte* end) {
    last_->used.store(static_cast<std::size_t>(end - last_->bytes.get()), std::memory_order_release);
  }

  Chunk* first_;
  Chunk* last_;
};

}  // namespace ferry::profiler
