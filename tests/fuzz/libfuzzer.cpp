// libFuzzer's entry points for the one surface that is linked in:
// https://releases.llvm.org/14.0.0/docs/LibFuzzer.html
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>

#include "fuzz/mutate_message.h"
#include "fuzz/surface.h"

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                                                  std::size_t size) {
  tutti::fuzz::surfaces().front().run({reinterpret_cast<const char*>(data), size});
  return 0;
}

__attribute__((visibility("default"))) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                                                           std::size_t size,
                                                                           std::size_t max_size,
                                                                           unsigned seed) {
  const google::protobuf::Message* type = tutti::fuzz::surfaces().front().message;
  std::mt19937 random(seed);
  // Now and then as bytes, so that what is no message comes up, too.
  if (type == nullptr || random() % 16 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::unique_ptr<google::protobuf::Message> message(type->New());
  if (!message->ParsePartialFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  for (auto changes = 1 + random() % 3; changes > 0; --changes) {
    tutti::fuzz::mutate_message(message.get(), random);
  }
  const std::string bytes = message->SerializePartialAsString();
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
}
