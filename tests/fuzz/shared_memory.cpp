// Regions that clients register, and what requests say of them: a line a call. What is found may be
// read and written, to its last byte.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <vector>

#include "fuzz/surface.h"
#include "server/http/text.h"
#include "server/shared_memory/registry.h"

namespace tutti::fuzz {
namespace {

using namespace tutti::server;  // NOLINT: the whole file is about it

// A shared memory object of a page and a bit. "KEY" in an input stands for its name.
class Object {
 public:
  static constexpr std::size_t kBytes = 5000;

  Object() {
    const int file = shm_open(key_.c_str(), O_CREAT | O_RDWR, 0600);
    require(file >= 0 && ftruncate(file, kBytes) == 0, "there is shared memory");
    close(file);
  }
  ~Object() { shm_unlink(key_.c_str()); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const std::string& key() const { return key_; }
  void resize(std::size_t bytes) const {
    const int file = shm_open(key_.c_str(), O_RDWR, 0600);
    require(file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0, "it has another size");
    close(file);
  }

 private:
  const std::string key_ = "/tutti_fuzz_" + std::to_string(getpid());
};

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void touch(const SharedBytes& bytes) {
  if (bytes.size == 0) return;
  for (const std::size_t at : {std::size_t{0}, bytes.size - 1}) {
    volatile std::byte* byte = bytes.data + at;
    *byte = *byte;
  }
}

void call(SharedMemoryRegistry& registry, const Object& object, std::string_view line) {
  auto words = split(line, ' ');
  words.resize(5);
  const std::string name(words[1]);
  if (words[0] == "register") {
    const std::string key = words[2] == "KEY" ? object.key() : std::string(words[2]);
    check_error(registry.register_system(name, key, number(words[3]), number(words[4])));
  } else if (words[0] == "cuda") {
    check_error(registry.register_cuda(name, std::as_bytes(std::span(words[2])),
                                       static_cast<std::int64_t>(number(words[3])),
                                       number(words[4])));
  } else if (words[0] == "find") {
    const auto bytes = registry.find({name, number(words[2]), number(words[3])});
    if (check_result(bytes)) touch(*bytes);
  } else if (words[0] == "resize") {
    object.resize(number(words[1]) % (4 * Object::kBytes));
  } else if (words[0] == "status") {
    check_result(registry.system_status(name));
    check_result(registry.cuda_status(name));
  } else if (words[0] == "drop") {
    check_error(registry.unregister_system(name));
    check_error(registry.unregister_cuda(name));
  }
}

void run(std::string_view input) {
  static const Object object;
  object.resize(Object::kBytes);
  SharedMemoryRegistry registry(true);
  int calls = 0;
  for (const std::string_view line : split(input, '\n')) {
    if (++calls <= 50) call(registry, object, line);
  }
}

std::vector<std::string> seeds() {
  return {"register a KEY 0 5000\nfind a 0 5000\nfind a 4990 10\nfind a 4990 11\nstatus a\ndrop a",
          "register a KEY 4097 903\nregister a KEY 0 1\nfind a 0 903\nfind b 0 1\nstatus \ndrop ",
          "register a KEY 8 4992\nresize 100\nfind a 0 1\nresize 5000\nfind a 0 4992",
          "register a KEY 18446744073709551615 2\nregister b KEY 2 18446744073709551615",
          "register a /../etc/passwd 0 1\nregister b /no_such_object 0 1\nregister  KEY 0 1",
          "cuda a handle 0 64\nfind a 18446744073709551615 18446744073709551615"};
}

const Registration registration({"shared_memory", run, seeds});

}  // namespace
}  // namespace tutti::fuzz
