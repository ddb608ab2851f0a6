#include "fuzz/change.h"

#include <memory>

#include "fuzz/mutate_message.h"

namespace tutti::fuzz {
namespace {

std::string change_bytes(std::string bytes, std::mt19937& random) {
  static const char* const kPieces[] = {"0",
                                        "-1",
                                        "18446744073709551616",
                                        "9223372036854775807",
                                        "[",
                                        "{",
                                        "\"",
                                        "}",
                                        "]",
                                        ",",
                                        ":",
                                        "\\",
                                        "\n",
                                        " ",
                                        "\xff",
                                        "=",
                                        "1e999",
                                        "-",
                                        "(",
                                        "%",
                                        "a"};
  const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
  const std::size_t from = bytes.empty() ? 0 : random() % bytes.size();
  switch (random() % 6) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      break;
    case 1: bytes.resize(at); break;
    case 2: bytes.erase(at, 1 + random() % 8); break;
    case 3: bytes.insert(at, kPieces[random() % std::size(kPieces)]); break;
    case 4: {
      const std::string piece = kPieces[random() % std::size(kPieces)];
      bytes.replace(at, std::min(piece.size(), bytes.size() - at), piece);
      break;
    }
    default: bytes.insert(at, bytes.substr(from, 1 + random() % 32)); break;
  }
  return bytes;
}

}  // namespace

std::string changed(const Surface& surface, const std::string& input, std::mt19937& random) {
  if (surface.message == nullptr || random() % 16 == 0) return change_bytes(input, random);
  const std::unique_ptr<google::protobuf::Message> message(surface.message->New());
  if (!message->ParsePartialFromString(input)) return change_bytes(input, random);
  mutate_message(message.get(), random);
  return message->SerializePartialAsString();
}

}  // namespace tutti::fuzz
