// Tensors and modules in safetensors files: round trips, files written by others, damaged files.
#include <ferry/safetensors.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <ferry/ferry.h>

namespace ferry {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::temp_directory_path() / (std::string("ferry_") + test.name() + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "model.safetensors").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string read_bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_bytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  // A file of this header, as Python's struct.pack("<Q", len(header)) + header + data writes it.
  void write_file(const std::string& header, const std::string& data) const {
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
    write_bytes(length + header + data);
  }
  std::string load_error() const {
    try {
      load_tensors(path_);
    } catch (const ParseError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
  std::string path_;
  Runtime runtime_{{.device = "sim:rtx2080ti"}};
};

template <class T>
const Tensor& find(const T& tensors, const std::string& name) {
  for (const nn::NamedTensor& entry : tensors) {
    if (entry.name == name) return entry.tensor;
  }
  throw InvalidArgument("no tensor " + name);
}

TEST_F(SafetensorsTest, RoundTripsEveryDTypeAndMetadata) {
  const Tensor numbers = from_vector(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  std::vector<nn::NamedTensor> saved;
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    saved.push_back({std::string(name_of(dtype)), numbers.to(dtype)});
  }
  save_tensors(path_, saved, {{"step", "12"}, {"note", "a \"quoted\" text"}});
  const TensorFile loaded = load_tensors(path_);
  EXPECT_EQ(loaded.metadata, (Metadata{{"step", "12"}, {"note", "a \"quoted\" text"}}));
  EXPECT_EQ(load_metadata(path_), loaded.metadata);
  ASSERT_EQ(loaded.tensors.size(), saved.size());
  for (const nn::NamedTensor& entry : saved) {
    const Tensor& tensor = find(loaded.tensors, entry.name);
    EXPECT_EQ(tensor.dtype(), entry.tensor.dtype());
    EXPECT_EQ(tensor.shape(), entry.tensor.shape());
    EXPECT_TRUE(tensor.device().is_cpu());
    EXPECT_EQ(tensor.to(DType::f32).to_vector<float>(), entry.tensor.to(DType::f32).to_vector<float>()) << entry.name;
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(SafetensorsTest, RoundTripsScalarsEmptyTensorsViewsAndSeveralPieces) {
  const Tensor base = arange(0, 24, 1, DType::i32);
  const Tensor large = uniform({700, 3000});  // read in two pieces
  save_tensors(path_, {{"scalar", full({}, 2.5)},
                       {"empty", zeros({3, 0})},
                       {"transposed", transpose(reshape(base, {4, 6}))},
                       {"part", narrow(base, 0, 5, 2)},
                       {"large", large}});
  const TensorFile loaded = load_tensors(path_);
  EXPECT_EQ(find(loaded.tensors, "scalar").item(), 2.5);
  EXPECT_EQ(find(loaded.tensors, "scalar").rank(), 0);
  EXPECT_EQ(find(loaded.tensors, "empty").shape(), (Shape{3, 0}));
  EXPECT_EQ(find(loaded.tensors, "transposed").to_vector<int>(), transpose(reshape(base, {4, 6})).to_vector<int>());
  EXPECT_EQ(find(loaded.tensors, "part").to_vector<int>(), (std::vector<int>{5, 6}));
  EXPECT_EQ(find(loaded.tensors, "large").to_vector<float>(), large.to_vector<float>());
}

TEST_F(SafetensorsTest, TheDataIsAlignedAndTheHeaderWhatOthersExpect) {
  save_tensors(path_, {{"b", full({3}, 7, DType::u8)}, {"a", full({2}, 1)}});
  const std::string bytes = read_bytes();
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0]));
  EXPECT_EQ(length % 8, 0u);
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  EXPECT_EQ(bytes.substr(8, header.size()), header);
  EXPECT_EQ(bytes.size(), 8 + length + 11);
  EXPECT_EQ(bytes.substr(8 + length + 8), "\7\7\7");
}

TEST_F(SafetensorsTest, ReadsAFileWrittenByOthers) {
  write_file(R"({"x": {"shape": [2, 1], "data_offsets": [4, 12], "dtype": "F32"}, "__metadata__": {"format": "pt"},)"
             R"( "flags": {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}}   )",
             std::string("\0\1\1\0\0\0\x80\x3f\0\0\0\xc0", 12));
  const TensorFile loaded = load_tensors(path_);
  EXPECT_EQ(loaded.metadata, (Metadata{{"format", "pt"}}));
  EXPECT_EQ(find(loaded.tensors, "x").to_vector<float>(), (std::vector<float>{1, -2}));
  EXPECT_EQ(find(loaded.tensors, "flags").to_vector<bool>(), (std::vector<bool>{false, true, true, false}));
}

TEST_F(SafetensorsTest, NamesFileTensorAndByteOfWhatIsWrong) {
  const auto entry = [](const std::string& name, const std::string& rest) { return '"' + name + "\":{" + rest + "}"; };
  const std::string x = entry("x", R"("dtype":"F32","shape":[2],"data_offsets":[0,8])");
  const struct {
    std::string header, data, message;
  } cases[] = {
      {"[]", "", "byte 8: the header does not start with '{'"},
      {"{\"x\": ", "", "the header is no JSON"},
      {"{\"x\": 1e999}", "", "the header's JSON"},
      {"{" + x + "," + x + "}", "12345678", "names 'x' twice"},
      {"{" + entry("x", R"("shape":[2],"data_offsets":[0,8])") + "}", "12345678", "'x': 'dtype' is missing"},
      {"{" + entry("x", R"("dtype":"F99","shape":[2],"data_offsets":[0,8])") + "}", "12345678", "dtype \"F99\""},
      {"{" + entry("x", R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])") + "}", "12345678", "no natural number"},
      {"{" + entry("x", R"("dtype":"F32","shape":[3],"data_offsets":[0,8])") + "}", "12345678",
       "the 12 bytes of f32 [3]"},
      {"{" + entry("x", R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])") + "}", "12345678",
       "more elements than fit"},
      {"{" + entry("x", R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])") + "}", "1", "8 axes"},
      {"{" + x + "}", "1234567", "tensor 'x': the file ends here"},
      {"{" + x + "}", "123456789", "1 bytes follow the last tensor"},
      {"{" + x + "," + entry("y", R"("dtype":"U8","shape":[2],"data_offsets":[7,9])") + "}", "123456789",
       "tensor 'y': overlaps"},
      {"{" + x + "," + entry("y", R"("dtype":"U8","shape":[1],"data_offsets":[9,10])") + "}", "1234567890",
       "tensor 'y': 1 bytes before it"},
      {R"({"__metadata__":{"a":1}})", "", "holds 1 under 'a'"},
  };
  for (const auto& [header, data, message] : cases) {
    write_file(header, data);
    EXPECT_THAT(load_error(), AllOf(HasSubstr(path_), HasSubstr("byte"), HasSubstr(message))) << header;
  }
}

TEST_F(SafetensorsTest, RefusesImpossibleHeaderLengths) {
  for (const std::string& bytes : {std::string("1234"), std::string("\x10\0\0\0\0\0\0\0{}", 10),
                                   std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)}) {
    write_bytes(bytes);
    EXPECT_THAT(load_error(), HasSubstr("length"));
  }
  EXPECT_THROW(load_tensors((folder_ / "absent").string()), InvalidArgument);
  EXPECT_THROW(load_tensors(folder_.string()), InvalidArgument);
}

// Whatever byte of a header is damaged: an error that says so, or tensors that fit the file.
TEST_F(SafetensorsTest, SurvivesEveryDamagedByte) {
  save_tensors(path_, {{"weight", full({2, 3}, 1)}, {"ids", arange(0, 4)}}, {{"step", "3"}});
  const std::string good = read_bytes();
  int refused = 0;
  for (std::size_t at = 0; at < good.size() - 24 - 32; ++at) {
    for (const char value : {'\0', '\xff', '9', '"', '}'}) {
      std::string bytes = good;
      if (bytes[at] == value) continue;
      bytes[at] = value;
      write_bytes(bytes);
      try {
        for (const nn::NamedTensor& entry : load_tensors(path_).tensors) EXPECT_GE(entry.tensor.numel(), 0);
      } catch (const ParseError& error) {
        EXPECT_THAT(error.what(), HasSubstr(path_));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(SafetensorsTest, SavingRefusesNamesThatCannotBeTwo) {
  const Tensor x = zeros({1});
  EXPECT_THROW(save_tensors(path_, {{"x", x}, {"x", x}}), InvalidArgument);
  EXPECT_THROW(save_tensors(path_, {{"__metadata__", x}}), InvalidArgument);
  EXPECT_THROW(save_tensors((folder_ / "no" / "folder").string(), {{"x", x}}), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, SavingRefusesWhatNoFileHolds) {
  const Tensor x = ones({2});
  EXPECT_THROW(save_tensors(path_, {{"none", Tensor()}}), InvalidArgument);
  EXPECT_THROW(save_tensors(path_, {{"\xff", x}}), InvalidArgument);
  EXPECT_THROW(save_tensors(path_, {{"x", x}}, {{"key", "\xff"}}), InvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SafetensorsTest, SavingReplacesFilesAlone) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(save_tensors(path_, {{"x", ones({2})}}), InvalidArgument);
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

TEST_F(SafetensorsTest, AFailedSaveLeavesTheOldFile) {
  save_tensors(path_, {{"x", full({2}, 1)}});
  const std::string before = read_bytes();
  {
    Runtime timing{{.device = "sim:rtx2080ti", .values = false}};
    EXPECT_THROW(save_tensors(path_, {{"x", full({2}, 2)}}), InvalidArgument);
  }
  EXPECT_EQ(read_bytes(), before);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

class Net : public nn::Module {
 public:
  explicit Net(std::int64_t width = 4) {
    conv = register_module("conv", std::make_shared<nn::Conv2d>(3, width, std::array<std::int64_t, 2>{3, 3}));
    bn = register_module("bn", std::make_shared<nn::BatchNorm2d>(width));
  }
  std::shared_ptr<nn::Conv2d> conv;
  std::shared_ptr<nn::BatchNorm2d> bn;

 protected:
  Tensor forward(const Tensor& x) override { return (*bn)((*conv)(x)); }
};

std::vector<std::vector<float>> values_of(const nn::Module& module) {
  std::vector<std::vector<float>> values;
  for (const auto& list : {module.parameters(), module.buffers()}) {
    for (const nn::NamedTensor& entry : list) values.push_back(entry.tensor.to_vector<float>());
  }
  return values;
}

TEST_F(SafetensorsTest, AModuleGetsItsParametersAndBuffersBack) {
  Net saved, loaded;
  const Tensor x = normal({2, 3, 5, 5});
  saved(x);  // moves the running statistics
  nn::save(saved, path_);
  ASSERT_NE(values_of(saved), values_of(loaded));
  nn::load(loaded, path_);
  EXPECT_EQ(values_of(saved), values_of(loaded));
  EXPECT_TRUE(loaded.conv->weight.device().is_gpu());
  EXPECT_TRUE(loaded.conv->weight.requires_grad());
  saved.eval();
  loaded.eval();
  EXPECT_EQ(saved(x).to_vector<float>(), loaded(x).to_vector<float>());
}

TEST_F(SafetensorsTest, LoadingChangesNothingUnlessEverythingFits) {
  Net module;
  const auto before = values_of(module);
  const auto refused = [&](const std::string& message) {
    try {
      nn::load(module, path_);
      ADD_FAILURE() << "loaded";
    } catch (const ParseError& error) {
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
    EXPECT_EQ(values_of(module), before);
  };
  nn::save(Net(5), path_);
  refused("tensor 'conv.weight' is f32 [5, 3, 3, 3], the module's is f32 [4, 3, 3, 3]");

  std::vector<nn::NamedTensor> tensors = Net().parameters();
  save_tensors(path_, tensors);
  refused("tensor 'bn.running_mean' of the module is not in the file");

  for (const nn::NamedTensor& buffer : Net().buffers()) tensors.push_back({buffer.name, buffer.tensor.to(DType::f64)});
  save_tensors(path_, tensors);
  refused("tensor 'bn.running_mean' is f64 [4]");

  nn::save(Net(), path_);
  const std::string bytes = read_bytes();
  write_bytes(bytes.substr(0, bytes.size() - 1));
  refused("the file ends here");
}

TEST_F(SafetensorsTest, StrictLoadingRefusesNamesThatTheModuleLacks) {
  Net module;
  std::vector<nn::NamedTensor> tensors = module.state_dict();
  tensors.push_back({"bn.num_batches_tracked", full({}, 3, DType::i64)});  // as PyTorch's files have it
  save_tensors(path_, tensors);
  nn::load(module, path_);
  tensors.push_back({"head.weight", zeros({2})});
  save_tensors(path_, tensors);
  try {
    nn::load(module, path_);
    ADD_FAILURE() << "loaded";
  } catch (const ParseError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 'head.weight' of the file is not in the module"));
  }
}

TEST_F(SafetensorsTest, LooseLoadingReportsWhatEitherLacks) {
  Net saved, loaded;
  std::vector<nn::NamedTensor> tensors = saved.parameters();
  tensors.push_back({"head.weight", zeros({2})});
  save_tensors(path_, tensors);
  const nn::LoadReport report = nn::load(loaded, path_, {.strict = false});
  EXPECT_THAT(report.missing, testing::ElementsAre("bn.running_mean", "bn.running_var"));
  EXPECT_THAT(report.unexpected, testing::ElementsAre("head.weight"));
  EXPECT_EQ(loaded.conv->weight.to_vector<float>(), saved.conv->weight.to_vector<float>());
  nn::save(Net(5), path_);
  EXPECT_THROW(nn::load(loaded, path_, {.strict = false}), ParseError);
}

TEST_F(SafetensorsTest, FloatsAreConvertedOnRequest) {
  Net saved, loaded;
  std::vector<nn::NamedTensor> tensors = saved.state_dict();
  for (nn::NamedTensor& each : tensors) each.tensor = each.tensor.to(DType::bf16);
  save_tensors(path_, tensors);
  EXPECT_THROW(nn::load(loaded, path_), ParseError);
  nn::load(loaded, path_, {.convert = true});
  EXPECT_EQ(loaded.conv->weight.dtype(), DType::f32);
  EXPECT_EQ(loaded.conv->weight.to_vector<float>(), tensors[0].tensor.to(DType::f32).to_vector<float>());
  tensors[0].tensor = zeros({4, 3, 3, 3}, DType::i32);
  save_tensors(path_, tensors);
  EXPECT_THROW(nn::load(loaded, path_, {.convert = true}), ParseError);
}

TEST_F(SafetensorsTest, AStateDictPassesBetweenModules) {
  Net saved, loaded;
  nn::load_state_dict(loaded, saved.state_dict());
  EXPECT_EQ(values_of(loaded), values_of(saved));
  const auto before = values_of(loaded);
  try {
    nn::load_state_dict(loaded, Net(5).state_dict());
    ADD_FAILURE() << "loaded";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 'conv.weight' is f32 [5, 3, 3, 3]"));
  }
  EXPECT_EQ(values_of(loaded), before);
}

}  // namespace
}  // namespace ferry
