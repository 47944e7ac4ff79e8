// The importer of ferry's own recordings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/base/check.h"
#include "src/trace/trace_json.h"
#include "tests/analysis/trace_text.h"
#include "tests/support/trace_builder.h"

namespace ferry::profiler {
namespace {

using analysis::Activity;
using analysis::Event;
using analysis::EventKind;
using nlohmann::json;
using nlohmann::ordered_json;
using test::error_of;
using test::imported;
using test::report_of;
using ::testing::Contains;
using ::testing::HasSubstr;

// Two threads and a GPU, scopes that are as long as their only op, and reads that no op asked for.
trace::Trace recording() {
  testing::TraceBuilder builder;
  const int image = builder.tensor("image", Bytes{40'000});
  for (int i = 0; i < 3; ++i) {
    const int result = builder.tensor("crop", Bytes{4'000});
    builder.begin_scope("stem");
    builder.op({.name = "crop", .line = 32 + i, .inputs = {image}, .outputs = {result}});
    builder.end_scope();
    builder.op({.name = "sum", .line = 40, .device = cpu::device, .inputs = {result}, .thread = 1});
    builder.fetch(result, 33);
  }
  const int last = builder.tensor("last", Bytes{8});
  builder.op({.name = "norm", .line = 50, .inputs = {image}, .outputs = {last}});
  builder.fetch(last, 51);
  return builder.build();
}

std::string text_of(const trace::Trace& trace) {
  std::ostringstream out;
  trace::write_json(trace, out);
  return out.str();
}

std::string error_after(const std::string& pointer, const json& value) {
  json document = json::parse(text_of(recording()));
  document[json::json_pointer(pointer)] = value;
  return error_of(document.dump());
}

ordered_json with_keys_reversed(const json& value) {
  if (!value.is_structured()) return value;
  ordered_json out = value.is_object() ? ordered_json::object() : ordered_json::array();
  if (value.is_array()) {
    for (const json& element : value) out.push_back(with_keys_reversed(element));
  } else {
    for (auto member = value.rbegin(); member != value.rend(); ++member)
      out[member.key()] = with_keys_reversed(*member);
  }
  return out;
}

// All that an activity says, in its order.
std::string shown(const Activity& activity) {
  std::string text;
  for (const analysis::Track& track : activity.tracks)
    text += fmt::format("track {} {} {}\n", track.name, track.device, track.stream);
  for (const analysis::Gpu& gpu : activity.gpus) text += fmt::format("gpu {} {}\n", gpu.id, gpu.name);
  for (const Event& event : activity.events) {
    text += fmt::format("{} {} {} {} {} {} {}", event.track, activity.name_of(event), static_cast<int>(event.kind),
                        static_cast<int>(event.call), event.begin.count(), event.end.count(), event.correlation);
    if (event.kind == EventKind::op) text += fmt::format(" at {}", activity.names[event.detail]);
    if (event.kind == EventKind::call) {
      const analysis::CopyDetail& copy = activity.copies.at(static_cast<std::size_t>(event.detail));
      text += fmt::format(" copies {} {} {} {} {} {}", static_cast<int>(copy.direction), static_cast<int>(copy.memory),
                          static_cast<int>(copy.recorded), copy.size.count, copy.drain.count(), copy.transfer.count());
    }
    text += '\n';
  }
  return text;
}

TEST(FerryRecording, BecomesEventsWithTheRecordersWords) {
  const trace::Trace trace = recording();
  const Activity activity = imported(text_of(trace));
  EXPECT_EQ(activity.format, "ferry recording");
  EXPECT_TRUE(activity.virtual_time);
  const auto count = [&](EventKind kind) {
    return static_cast<std::size_t>(std::ranges::count(activity.events, kind, &Event::kind));
  };
  const auto unasked = std::ranges::count(trace.copies, -1, &trace::CopyRecord::op);
  ASSERT_GT(unasked, 0);
  EXPECT_EQ(count(EventKind::op), trace.ops.size() + static_cast<std::size_t>(unasked));
  EXPECT_EQ(count(EventKind::annotation), trace.scopes.size());
  EXPECT_EQ(count(EventKind::call), trace.copies.size());
  EXPECT_EQ(count(EventKind::kernel) + count(EventKind::copy), trace.work.size());
  EXPECT_EQ(activity.copies.size(), trace.copies.size());
  // The scope and the op in it have the same interval: the scope stands before it.
  ASSERT_GE(activity.events.size(), 3u);
  EXPECT_EQ(activity.name_of(activity.events[0]), "stem");
  EXPECT_EQ(activity.name_of(activity.events[1]), "crop");
  EXPECT_EQ(activity.names[activity.events[1].detail], "src/main.cpp:32");
  EXPECT_EQ(activity.events[0].end, activity.events[1].end);
}

TEST(FerryRecording, TablesAndFieldsComeInAnyOrder) {
  const std::string text = text_of(recording());
  const std::string reversed = with_keys_reversed(json::parse(text)).dump(1);
  ASSERT_LT(text.find("\"copies\""), text.find("\"strings\""));
  ASSERT_LT(reversed.find("\"strings\""), reversed.find("\"copies\""));
  EXPECT_EQ(shown(imported(reversed)), shown(imported(text)));
}

TEST(FerryRecording, WhatIsNoFieldIsSkipped) {
  json document = json::parse(text_of(recording()));
  const std::string expected = shown(imported(document.dump()));
  document["newer"] = json::array({1, json::object({{"a", "]}"}})});
  document["ops"][0]["newer"] = json::object({{"b", json::array({"}"})}});
  EXPECT_EQ(shown(imported(document.dump())), expected);
}

TEST(FerryRecording, NamesTheByteAndTheFieldThatIsWrong) {
  json document = json::parse(text_of(recording()));
  document["ops"][2]["begin"] = "soon";
  const std::string text = document.dump();
  EXPECT_EQ(error_of(text),
            fmt::format("trace: byte {}: field 'ops[2].begin' is not an integer", text.find("\"soon\"")));
  EXPECT_THAT(error_after("/ops/2/device", "tpu\n"), HasSubstr("field 'ops[2].device' cannot be read: 'tpu '"));
  EXPECT_THAT(error_after("/copies/1/cause", "magic"), HasSubstr("'copies[1].cause' is none of implicit, fetch"));
  EXPECT_THAT(error_after("/copies/1/cause", 1), HasSubstr("'copies[1].cause' is none of implicit, fetch"));
  EXPECT_THAT(error_after("/tensors/0/dtype", "f8"), HasSubstr("'tensors[0].dtype' cannot be read"));
  EXPECT_THAT(error_after("/tensors/0/shape", json::array({1, 1, 1, 1, 1, 1, 1, 1, 1})),
              HasSubstr("'tensors[0].shape' has more than 8 axes"));
  EXPECT_THAT(error_after("/copies/0/synchronous", 1), HasSubstr("'copies[0].synchronous' is not true or false"));
  EXPECT_THAT(error_after("/ops/0/flops", json()), HasSubstr("'ops[0].flops' is not a number"));
  EXPECT_THAT(error_after("/ops/0/thread", -1), HasSubstr("'ops[0].thread' is out of range"));
  EXPECT_THAT(error_after("/ops/0/thread", 1.5), HasSubstr("'ops[0].thread' is not an integer"));
  EXPECT_THAT(error_after("/ops/0/inputs/0/host", 1), HasSubstr("'ops[0].inputs[0].host' is not true or false"));
  EXPECT_THAT(error_after("/strings/1", 5), HasSubstr("'strings[1]' is not a string"));
  EXPECT_THAT(error_after("/work", 5), HasSubstr("'work' is not an array"));
  EXPECT_THAT(error_after("/work/0", 5), HasSubstr("'work[0]' is not an object"));
}

TEST(FerryRecording, RefusesWhatLacksAFieldOrHasItTwice) {
  json document = json::parse(text_of(recording()));
  document["copies"][1].erase("tensor");
  EXPECT_THAT(error_of(document.dump()), HasSubstr("'copies[1].tensor' is missing"));
  EXPECT_THAT(error_of(R"({"ferry_trace": 1})"), HasSubstr("trace: byte 0: field 'begin' is missing"));
  EXPECT_EQ(error_of(R"({"ferry_trace": 1, "ops": [], "ops": []})"), "trace: byte 35: field 'ops' is there twice");
}

TEST(FerryRecording, ChecksIndicesWhereverTheirTableStands) {
  json document = json::parse(text_of(recording()));
  document["copies"][1]["tensor"] = 999;
  const std::size_t rows = document["tensors"].size();
  const std::string expected =
      fmt::format("field 'copies[1].tensor' is 999, which is no index into a table of {}", rows);
  EXPECT_THAT(error_of(document.dump()), HasSubstr(expected));
  EXPECT_THAT(error_of(with_keys_reversed(document).dump()), HasSubstr(expected));
  EXPECT_THAT(error_after("/ops/0/site", -2), HasSubstr("'ops[0].site' is -2"));
  EXPECT_THAT(error_after("/ops/0/inputs/0/tensor", 10'000), HasSubstr("'ops[0].inputs' is 10000"));
  EXPECT_THAT(error_after("/ops/0/scope", 10'000), HasSubstr("'ops[0].scope' is 10000"));
  EXPECT_THAT(error_after("/scopes/0/name", 10'000), HasSubstr("'scopes[0].name' is 10000"));
  EXPECT_THAT(error_after("/copies/0/op", 10'000), HasSubstr("'copies[0].op' is 10000"));
}

TEST(FerryRecording, AnotherVersionIsWhatIsWrongWithIt) {
  json document = json::parse(text_of(recording()));
  document["ferry_trace"] = 9;
  EXPECT_THAT(error_of(document.dump()), HasSubstr("'ferry_trace' is version 9; this ferry reads version 1"));
  // Also where what it changed is met first.
  document["copies"][0].erase("size");
  EXPECT_THAT(error_of(document.dump()), HasSubstr("'ferry_trace' is version 9; this ferry reads version 1"));
}

TEST(FerryRecording, SaysWhereItIsNoJson) {
  std::string text = text_of(recording());
  const std::size_t at = text.find("\"ops\"") + 5;
  text[at] = '!';
  EXPECT_EQ(error_of(text), fmt::format("trace: byte {}: expected ':' after a key, found '!'", at));
  text[at] = ':';
  const std::string twice = text + "{}";
  EXPECT_EQ(error_of(twice), fmt::format("trace: byte {}: expected the end of the file", text.size()));
}

TEST(FerryRecording, KeepsTheWholeEventsOfACutFile) {
  const std::string text = text_of(recording());
  const auto whole = report_of(text);
  ASSERT_GT(whole.sync_calls(), 0);
  std::size_t events = 0;
  for (std::size_t size = text.find("\"copies\"") + 10; size < text.rfind('}'); ++size) {
    const Activity activity = imported(std::string_view(text).substr(0, size));
    ASSERT_EQ(activity.tolerated.truncated_at, static_cast<std::int64_t>(size));
    ASSERT_GE(activity.events.size(), events);
    events = activity.events.size();
  }
  EXPECT_EQ(events, imported(text).events.size());
  // Behind the copies, and before the names.
  const auto cut = report_of(std::string_view(text).substr(0, text.find("\"strings\"")));
  EXPECT_EQ(cut.sync_h2d.calls, whole.sync_h2d.calls);
  EXPECT_EQ(cut.sync_d2h.calls, whole.sync_d2h.calls);
  EXPECT_EQ(cut.blocked(), whole.blocked());
  EXPECT_THAT(cut.warnings, Contains(HasSubstr("the file ends within a value at byte")));
  EXPECT_THAT(cut.warnings, Contains(HasSubstr("the file ends before the names in it")));
}

TEST(FerryRecording, TimesThatNoClockGivesAreCounted) {
  json document = json::parse(text_of(recording()));
  document["ops"][0]["end"] = document["ops"][0]["begin"].get<std::int64_t>() - 1;
  document["work"][0]["begin"] = std::numeric_limits<std::int64_t>::min();
  document["work"][0]["end"] = std::numeric_limits<std::int64_t>::max();
  const Activity activity = imported(document.dump());
  EXPECT_EQ(activity.tolerated.without_time, 2);
  EXPECT_EQ(activity.events.size() + 2, imported(text_of(recording())).events.size());
}

// A file of over 40 MB with 10'000 events: all else in it is read and not kept.
void write_long_recording(const std::string& path) {
  json document = json::parse(text_of(recording()));
  json op = document["ops"][0];
  op["inputs"] = json::array();
  for (int i = 0; i < 60; ++i) op["inputs"].push_back({{"host", false}, {"tensor", i % 2}});
  const std::string sample = R"({"allocated": 1, "at": 2, "device": "gpu:0", "reserved": 3})";
  const auto write_rows = [](std::ostream& out, const char* table, const std::string& row, int count) {
    out << '"' << table << "\": [";
    for (int i = 0; i < count; ++i) out << (i == 0 ? "" : ",") << row;
    out << "], ";
  };
  for (const char* table : {"begin", "copies", "memory", "ops"}) document.erase(table);
  std::ofstream out(path, std::ios::binary);
  // By these keys a recording is known whose mark stands far behind.
  out << R"({"begin": 0, "copies": [], )";
  write_rows(out, "ops", op.dump(), 10'000);
  write_rows(out, "memory", sample, 400'000);
  out << document.dump().substr(1);
}

TEST(FerryRecording, TakesMemoryForItsEventsOnly) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep what was freed";
#endif
  const std::string path = ::testing::TempDir() + "long_recording.trace";
  write_long_recording(path);
  const auto peak_kib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before = peak_kib();
  const Activity activity = importers::import_trace(importers::Input::file(path));
  EXPECT_LT(peak_kib() - before, 12 * 1024);
  EXPECT_GE(activity.events.size(), 10'000u);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace ferry::profiler
