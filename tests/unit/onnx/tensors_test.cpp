// Initialisers: every way in which a model may store elements, and every way to get it wrong.
#include <cstring>

#include "base/half.h"
#include "model_fixture.h"
#include "support/temp_folder.h"

namespace tutti::test {
namespace {

using onnx::TensorProto;
using ::testing::HasSubstr;

class TensorsTest : public ModelFixture {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_ / "model" / "sub"); }

  TensorProto* only_constant(int type, const std::vector<std::int64_t>& dims) {
    graph().Clear();
    add_output("w");
    return add_initializer("w", type, dims);
  }

  static void set_external(TensorProto* tensor, const std::string& key, const std::string& value) {
    tensor->set_data_location(TensorProto::EXTERNAL);
    for (auto& entry : *tensor->mutable_external_data()) {
      if (entry.key() == key) return entry.set_value(value);
    }
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  // Two floats, 1 and 2, in a file of the model's folder, after `padding` bytes.
  TensorProto* external_floats(std::size_t padding = 0) {
    const float values[] = {1, 2};
    std::string bytes(padding, '\0');
    bytes.append(reinterpret_cast<const char*>(values), sizeof values);
    std::ofstream(root_ / "model" / "weights.bin", std::ios::binary) << bytes;
    folder_ = (root_ / "model").string();
    TensorProto* tensor = only_constant(TensorProto::FLOAT, {2});
    set_external(tensor, "location", "weights.bin");
    return tensor;
  }

  const test::TempFolder temporary_;
  const std::filesystem::path root_ = temporary_.path();
};

TEST_F(TensorsTest, RawDataIsLittleEndian) {
  only_constant(TensorProto::INT32, {2})
      ->set_raw_data(std::string("\x01\x02\0\0\xff\xff\xff\xff", 8));
  EXPECT_EQ(read_constant().to_ints(), (std::vector<std::int64_t>{513, -1}));
}

TEST_F(TensorsTest, SixteenBitFloatsComeAsRawBitsOrInIntegers) {
  // 1.5 is 0x3fc0 in bf16 and 0x3e00 in fp16; -2 is 0xc000 in both.
  only_constant(TensorProto::BFLOAT16, {2})->set_raw_data(std::string("\xc0\x3f\x00\xc0", 4));
  EXPECT_EQ(read_constant().to_doubles(), (std::vector<double>{1.5, -2}));
  TensorProto* tensor = only_constant(TensorProto::BFLOAT16, {2});
  tensor->add_int32_data(0x3fc0);
  tensor->add_int32_data(0xc000);
  EXPECT_EQ(read_constant().to_doubles(), (std::vector<double>{1.5, -2}));
  tensor->set_data_type(TensorProto::FLOAT16);
  tensor->set_int32_data(0, 0x3e00);
  tensor->set_int32_data(1, static_cast<std::int16_t>(0xc000));  // sign-extended
  EXPECT_EQ(read_constant().to_doubles(), (std::vector<double>{1.5, -2}));
  tensor->set_int32_data(1, 0x10000);
  EXPECT_THAT(error(), HasSubstr("tensor 'w': int32_data holds 65536"));
}

TEST_F(TensorsTest, TypedFieldsOfEveryType) {
  only_constant(TensorProto::DOUBLE, {1})->add_double_data(0.1);
  EXPECT_EQ(read_constant().to_doubles(), std::vector<double>{0.1});
  only_constant(TensorProto::FLOAT, {1})->add_float_data(0.5F);
  EXPECT_EQ(read_constant().to_doubles(), std::vector<double>{0.5});
  only_constant(TensorProto::INT64, {1})->add_int64_data(INT64_MIN);
  EXPECT_EQ(read_constant().to_ints(), std::vector<std::int64_t>{INT64_MIN});
  only_constant(TensorProto::UINT32, {1})->add_uint64_data(0xffffffff);
  EXPECT_EQ(read_constant().data_as<std::uint32_t>()[0], 0xffffffffU);
  only_constant(TensorProto::UINT64, {1})->add_uint64_data(UINT64_MAX);
  EXPECT_EQ(read_constant().data_as<std::uint64_t>()[0], UINT64_MAX);
  for (const int type : {TensorProto::INT8, TensorProto::INT16, TensorProto::INT32,
                         TensorProto::UINT8, TensorProto::UINT16}) {
    only_constant(type, {1})->add_int32_data(100);
    EXPECT_EQ(read_constant().to_ints(), std::vector<std::int64_t>{100}) << type;
  }
  only_constant(TensorProto::INT8, {1})->add_int32_data(128);
  EXPECT_THAT(error(), HasSubstr("int32_data holds 128, out of range for i8"));
}

TEST_F(TensorsTest, BoolsAreZeroOrOneWhateverTheFileSays) {
  TensorProto* tensor = only_constant(TensorProto::BOOL, {3});
  tensor->set_raw_data(std::string("\x00\x01\x80", 3));
  const Tensor read = read_constant();
  EXPECT_EQ(std::memcmp(read.data(), "\x00\x01\x01", 3), 0);
}

TEST_F(TensorsTest, ContentOfAnotherLengthIsAnErrorBeforeMemoryIsTaken) {
  TensorProto* tensor = only_constant(TensorProto::FLOAT, {std::int64_t{1} << 40});
  tensor->set_raw_data("abcd");
  EXPECT_THAT(error(), HasSubstr("tensor 'w': raw data has 4 bytes, f32[1099511627776] needs"));
  tensor->clear_raw_data();
  tensor->add_float_data(1);
  EXPECT_THAT(error(), HasSubstr("float_data has 1 elements, f32[1099511627776] needs"));
  tensor->set_dims(0, (std::int64_t{1} << 60) + 2);
  tensor->add_dims(16);
  EXPECT_THAT(error(), HasSubstr("tensor 'w'"));
  tensor->set_dims(0, -1);
  EXPECT_THAT(error(), HasSubstr("tensor 'w'"));
}

TEST_F(TensorsTest, KindsThatAreNotSupportedAreErrorsThatNameThem) {
  only_constant(TensorProto::STRING, {1})->add_string_data("a");
  EXPECT_THAT(error(), HasSubstr("tensor 'w': element type STRING is not supported"));
  only_constant(TensorProto::INT4, {2})->set_raw_data("a");
  EXPECT_THAT(error(), HasSubstr("tensor 'w': element type INT4 is not supported"));
  only_constant(1000, {2});
  EXPECT_THAT(error(), HasSubstr("ONNX element type 1000"));
  only_constant(TensorProto::FLOAT, {1})->mutable_segment();
  EXPECT_THAT(error(), HasSubstr("segments are not supported"));
  only_constant(TensorProto::FLOAT, {1})->add_float_data(1);
  graph().add_sparse_initializer()->mutable_values()->set_name("s");
  EXPECT_THAT(error(), HasSubstr("initializer 's' is sparse"));
  graph().clear_sparse_initializer();
  *graph().add_initializer() = graph().initializer(0);
  EXPECT_THAT(error(), HasSubstr("two initializers have the name 'w'"));
}

TEST_F(TensorsTest, ExternalDataIsMappedAndOutlivesTheGraph) {
  external_floats();
  const Tensor tensor = read_constant();
  EXPECT_EQ(tensor.to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 4096, 0U);  // a page of the file
}

TEST_F(TensorsTest, ExternalDataThatIsNotAlignedIsCopied) {
  set_external(external_floats(3), "offset", "3");
  const Tensor tensor = read_constant();
  EXPECT_EQ(tensor.to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
}

TEST_F(TensorsTest, ExternalDataInSubfoldersIsFound) {
  TensorProto* tensor = external_floats();
  std::filesystem::rename(root_ / "model" / "weights.bin", root_ / "model" / "sub" / "w.bin");
  set_external(tensor, "location", "./sub/w.bin");
  set_external(tensor, "length", "8");
  set_external(tensor, "checksum", "ignored");
  EXPECT_EQ(read_constant().to_doubles(), (std::vector<double>{1, 2}));
}

TEST_F(TensorsTest, ExternalPathsThatLeaveTheFolderAreRefused) {
  TensorProto* tensor = external_floats();
  std::ofstream(root_ / "secret.bin") << "12345678";
  std::filesystem::create_symlink(root_ / "secret.bin", root_ / "model" / "link.bin");
  std::filesystem::create_directory_symlink(root_, root_ / "model" / "up");
  const std::vector<std::string> locations = {"../../../etc/passwd",
                                              "../secret.bin",
                                              "sub/../../secret.bin",
                                              "/etc/passwd",
                                              (root_ / "model" / "weights.bin").string(),
                                              "link.bin",
                                              "up/secret.bin"};
  for (const std::string& location : locations) {
    set_external(tensor, "location", location);
    EXPECT_THAT(error(), HasSubstr("tensor 'w': external data '" + location + "'")) << location;
    EXPECT_THAT(error(), HasSubstr("folder")) << location;
  }
  set_external(tensor, "location", std::string("weights.bin\0.txt", 16));
  EXPECT_THAT(error(), HasSubstr("must stay inside the model's folder"));
}

TEST_F(TensorsTest, ExternalFilesThatAreNoFilesAreRefused) {
  TensorProto* tensor = external_floats();
  set_external(tensor, "location", "missing.bin");
  EXPECT_THAT(error(), HasSubstr("external data 'missing.bin': No such file"));
  set_external(tensor, "location", "sub");
  EXPECT_THAT(error(), HasSubstr("'sub' is no regular file"));
  set_external(tensor, "location", "");
  EXPECT_THAT(error(), HasSubstr("external data has no location"));
  set_external(tensor, "location", "weights.bin");
  folder_.clear();
  EXPECT_THAT(error(), HasSubstr("this model may have none"));
}

TEST_F(TensorsTest, OffsetsAndLengthsPastTheFileOrPast64BitsAreRefused) {
  TensorProto* tensor = external_floats();
  set_external(tensor, "length", "8");
  for (const char* offset : {"1", "8", "9", "18446744073709551612", "9223372036854775807"}) {
    set_external(tensor, "offset", offset);
    EXPECT_THAT(error(), HasSubstr("tensor 'w': file")) << offset;
    EXPECT_THAT(error(), HasSubstr("reach past its end")) << offset;
  }
  for (const char* offset : {"18446744073709551616", "-1", "0x10", "1e3", "", " 1"}) {
    set_external(tensor, "offset", offset);
    EXPECT_THAT(error(), HasSubstr("tensor 'w': external data: offset")) << offset;
  }
  set_external(tensor, "offset", "0");
  set_external(tensor, "length", "4");
  EXPECT_THAT(error(), HasSubstr("external data has 4 bytes, f32[2] needs 8"));
}

}  // namespace
}  // namespace tutti::test
