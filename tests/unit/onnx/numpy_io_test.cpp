#include "onnx/numpy_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/half.h"
#include "support/temp_folder.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

// Version 1 with the given header text, as numpy.save lays it out.
std::string npy(std::string header, const std::string& content, char version = 1) {
  const std::size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  if (version > 1) out += std::string(2, '\0');
  return out + header + content;
}

Result<Tensor> read(const std::string& bytes) {
  return read_npy_bytes(std::as_bytes(std::span(bytes)));
}

std::string error(const std::string& bytes) {
  const auto tensor = read(bytes);
  EXPECT_FALSE(tensor.ok());
  return tensor.status().message();
}

TEST(NumpyIo, ReadsWhatNumpyWrites) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const std::string content(reinterpret_cast<const char*>(values), sizeof values);
  for (const char version : {1, 2, 3}) {
    const auto tensor =
        read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", content, version));
    ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
    EXPECT_EQ(tensor->desc(), (TensorDesc{DType::kFloat32, {2, 3}}));
    EXPECT_EQ(tensor->to_doubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(NumpyIo, WritesTheBytesThatNumpyWrites) {
  // numpy.save(path, numpy.array([7, -1], dtype=numpy.int16))
  const std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }";
  const std::int16_t values[] = {7, -1};
  const std::string expected =
      npy(header, std::string(reinterpret_cast<const char*>(values), sizeof values));
  const test::TempFolder folder;
  const std::string path = folder.file("written.npy");
  ASSERT_TRUE(write_npy(Tensor::of<std::int16_t>({2}, values), path).ok());
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), expected);
}

TEST(NumpyIo, EveryTypeAndRankSurvivesTheRoundTrip) {
  const test::TempFolder folder;
  const std::string path = folder.file("round_trip.npy");
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt8,
        DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8, DType::kUInt16, DType::kUInt32,
        DType::kUInt64, DType::kBool}) {
    for (const Dims& dims : {Dims{}, Dims{1}, Dims{2, 0, 3}, Dims{2, 1, 3}}) {
      Tensor tensor = *Tensor::allocate(dtype, dims);
      std::memset(tensor.mutable_data(), 1, tensor.byte_size());
      ASSERT_TRUE(write_npy(tensor, path).ok());
      const auto back = read_npy(path);
      ASSERT_TRUE(back.ok()) << back.status().to_string();
      EXPECT_EQ(back->desc(), tensor.desc());
      EXPECT_EQ(std::memcmp(back->data(), tensor.data(), tensor.byte_size()), 0);
    }
  }
}

TEST(NumpyIo, OtherOrdersAndTypesAreErrorsThatSayWhatToDo) {
  EXPECT_THAT(error(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "abcd")),
              HasSubstr("Fortran order"));
  EXPECT_THAT(error(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd")),
              HasSubstr("element type '>f4'"));
  EXPECT_THAT(error(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "abcdabcd")),
              HasSubstr("element type '<c8'"));
  EXPECT_THAT(error(npy("{'descr': '|O', 'fortran_order': False, 'shape': (), }", "x")),
              HasSubstr("element type '|O'"));
}

TEST(NumpyIo, ContentOfAnotherLengthIsAnError) {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  EXPECT_THAT(error(npy(header, "1234567")),
              HasSubstr("has 7 bytes of content, shape [2] needs 8"));
  EXPECT_THAT(error(npy(header, "123456789")), HasSubstr("has 9 bytes"));
  EXPECT_FALSE(read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1152921504606846978, "
                        "16), }",
                        ""))
                   .ok());
}

TEST(NumpyIo, HeadersThatDoNotParseAreErrors) {
  for (const char* header :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "{'descr': '<f4"}) {
    EXPECT_THAT(error(npy(header, "abcd")), HasSubstr("has a header that does not parse"))
        << header;
  }
  EXPECT_THAT(error("not numpy at all"), HasSubstr("is no .npy file"));
}

TEST(NumpyIo, CutFilesAreErrorsAtEveryLength) {
  const std::string whole =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678");
  ASSERT_TRUE(read(whole).ok());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(read(whole.substr(0, length)).ok()) << length;
  }
}

TEST(NumpyIo, ErrorsNameTheFile) {
  const test::TempFolder folder;
  const std::string path = folder.file("bad.npy");
  std::ofstream(path) << "nonsense nonsense";
  EXPECT_EQ(read_npy(path).status().message(), "file '" + path + "' is no .npy file");
  std::filesystem::remove(path);
  EXPECT_EQ(read_npy(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tutti
