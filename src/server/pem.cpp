#include "server/pem.h"

#include <fstream>
#include <iterator>

#include "server/names.h"

namespace tutti::server {

Result<std::string> read_pem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return invalid_argument("'", printable(path), "' cannot be read");
  if (text.find("-----BEGIN ") == std::string::npos) {
    return invalid_argument("'", printable(path), "' is no PEM file");
  }
  return text;
}

}  // namespace tutti::server
