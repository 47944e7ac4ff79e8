#include "profiler/importers/json_reader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "profiler/importers/decimal.h"
#include "src/base/check.h"

namespace ferry::profiler::importers {
namespace {

// Gives few bytes at a time, so that values lie across the ends of what was read.
class Drip : public ByteSource {
 public:
  explicit Drip(std::string text, std::size_t step = 1) : text_(std::move(text)), step_(step) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = std::min({size, step_, text_.size() - at_});
    text_.copy(to, count, at_);
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  std::size_t step_, at_ = 0;
};

JsonReader reader(std::string text, std::size_t step = 1) {
  return JsonReader(std::make_unique<Drip>(std::move(text), step), "t.json");
}

std::string error_of(const std::string& text) {
  JsonReader json = reader(text);
  try {
    json.begin_object();
    for (std::string_view key; json.next_key(key);) json.text();
  } catch (const ParseError& error) {
    return error.what();
  } catch (const EndOfInput& end) {
    return "ends at " + std::to_string(end.offset);
  }
  return "";
}

TEST(JsonReader, ReadsValuesAcrossReads) {
  for (const std::size_t step : {1u, 2u, 7u, 1000u}) {
    JsonReader json =
        reader(R"({"a": [1, -2.5e3, "x\n\u00e9\ud83d\ude00"], "skipped": {"b": ["]}", {}]}, "c": true})", step);
    json.begin_object();
    std::string_view key;
    ASSERT_TRUE(json.next_key(key));
    EXPECT_EQ(key, "a");
    json.begin_array();
    ASSERT_TRUE(json.next_element());
    EXPECT_EQ(json.text(), "1");
    ASSERT_TRUE(json.next_element());
    EXPECT_EQ(json.text(), "-2.5e3");
    ASSERT_TRUE(json.next_element());
    const std::string text(json.text());
    // A pair that lies across two reads is replaced.
    EXPECT_EQ(text.substr(0, 4), "x\n\u00e9");
    if (step == 1000) {
      EXPECT_EQ(text.substr(4), "\U0001F600");
    }
    EXPECT_FALSE(json.next_element());
    ASSERT_TRUE(json.next_key(key));
    json.skip();
    ASSERT_TRUE(json.next_key(key));
    EXPECT_EQ(key, "c");
    EXPECT_EQ(json.text(), "true");
    EXPECT_FALSE(json.next_key(key));
    EXPECT_EQ(json.next_type(), JsonReader::Type::end);
  }
}

TEST(JsonReader, NamesTheByteOfAnError) {
  EXPECT_EQ(error_of(R"({"a" 1})"), "t.json: byte 5: expected ':' after a key, found '1'");
  EXPECT_EQ(error_of(R"({"a": 1 "b")"), "t.json: byte 8: expected ',' or '}' after a value, found '\"'");
  EXPECT_EQ(error_of(R"({"a": ?})"), "t.json: byte 6: expected a value, found '?'");
  EXPECT_EQ(error_of(R"({"a": 1, b})"), "t.json: byte 9: expected a key in quotes, found 'b'");
}

TEST(JsonReader, TellsAnEndWithinAValueFromAnError) {
  EXPECT_EQ(error_of(R"({"a": 1)"), "ends at 7");
  EXPECT_EQ(error_of(R"({"a": "x)"), "ends at 8");
  EXPECT_EQ(error_of(R"({"a": )"), "ends at 6");
}

TEST(JsonReader, TakesWhatToolsWriteBeyondTheStandard) {
  EXPECT_EQ(error_of("{\"a\": \"x\x01\ny\", \x02 \"b\": NaN, \"c\": \"C:\\Users\",}"), "");
}

TEST(JsonReader, SkipsStringsThatEndInBackslashes) {
  for (const std::size_t step : {1u, 3u, 1000u}) {
    JsonReader json = reader(R"({"a": "x\\", "b": "\"", "c": 1})", step);
    json.begin_object();
    int keys = 0;
    for (std::string_view key; json.next_key(key); ++keys) json.skip();
    EXPECT_EQ(keys, 3);
  }
}

TEST(Decimal, ScalesWithoutADouble) {
  EXPECT_EQ(scaled("1712195495519695.813", 3), 1712195495519695813);
  EXPECT_EQ(scaled("1712195495519695.8", 3), 1712195495519695800);
  EXPECT_EQ(scaled("1623143093496523", 3), 1623143093496523000);
  EXPECT_EQ(scaled("-0.5", 3), -500);
  EXPECT_EQ(scaled("1.7e15", 3), 1'700'000'000'000'000'000);
  EXPECT_EQ(scaled("0.0004", 3), 0);
  EXPECT_EQ(scaled("0.0006", 3), 1);
  EXPECT_EQ(scaled("12e-3", 3), 12);
  EXPECT_EQ(scaled("99999999999999999999", 3), std::nullopt);
  EXPECT_EQ(scaled("1e400", 3), std::nullopt);
  EXPECT_EQ(scaled("", 3), std::nullopt);
  EXPECT_EQ(scaled(".", 3), std::nullopt);
  EXPECT_EQ(scaled("1x", 3), std::nullopt);
}

std::string gzipped(const std::string& text) {
  std::string out(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string read_all(const Input& input) {
  const std::unique_ptr<ByteSource> source = input.open();
  std::string text, part(100, '\0');
  for (std::size_t got; (got = source->read(part.data(), part.size())) > 0;) text.append(part, 0, got);
  return text;
}

TEST(Input, DecompressesByContent) {
  const std::string bytes = gzipped("first ") + gzipped("second");
  EXPECT_EQ(read_all(Input::memory("x", bytes)), "first second");
  EXPECT_EQ(read_all(Input::memory("x", "plain")), "plain");
}

TEST(Input, GivesWhatIsWholeOfCutGzip) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919 % 10'007) + ' ';
  std::string bytes = gzipped(text);
  bytes.resize(bytes.size() / 2);
  const std::string got = read_all(Input::memory("x", bytes));
  EXPECT_GT(got.size(), text.size() / 4);
  EXPECT_EQ(got, text.substr(0, got.size()));
}

TEST(Input, NamesTheByteOfDamagedGzip) {
  std::string bytes = gzipped(std::string(10'000, 'x') + "y");
  bytes[12] = '\x7f';
  bytes[13] = '\x7f';
  try {
    read_all(Input::memory("x.gz", bytes));
    FAIL();
  } catch (const ParseError& error) {
    EXPECT_NE(std::string(error.what()).find("x.gz: byte "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ferry::profiler::importers
