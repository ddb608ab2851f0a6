// A stand-in for libnvrtc.so.13: compiles kernels for the host with the compiler that built the
// tests, and keeps what it has compiled in a folder. "Machine code" is the path of a shared object.
#include <fcntl.h>
#include <nvrtc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "ptx.h"

extern char** environ;

struct _nvrtcProgram {
  std::string text;
  std::string log;
  std::string code;
};

namespace tutti::cuda_emulator {
namespace {

namespace fs = std::filesystem;

// Kernels reinterpret what they load and let integers wrap around, as nvcc allows. Addresses that
// are not aligned end the process, as they would on a card.
const std::vector<std::string>& flags() {
  static const std::vector<std::string> kFlags = {"-x",
                                                  "c++",
                                                  "-std=c++17",
                                                  "-O1",
                                                  "-fPIC",
                                                  "-shared",
                                                  "-w",
                                                  "-fvisibility=hidden",
                                                  "-fwrapv",
                                                  "-ffp-contract=off",
                                                  "-fno-math-errno",
                                                  "-fno-strict-aliasing",
                                                  "-fno-exceptions",
                                                  "-fno-rtti",
                                                  "-fsanitize=alignment",
                                                  "-fsanitize-undefined-trap-on-error"};
  return kFlags;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// FNV-1a, twice.
std::string hash_of(const std::string& text) {
  std::uint64_t a = 0xcbf29ce484222325;
  std::uint64_t b = 0x84222325cbf29ce4;
  for (const char c : text) {
    a = (a ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    b = (b ^ static_cast<unsigned char>(c)) * 0x100000001b3 + 0x9e3779b97f4a7c15;
  }
  char out[40];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return out;
}

fs::path cache_folder() {
  const char* given = std::getenv("TUTTI_CUDA_EMULATOR_CACHE");
  return given != nullptr ? given : CUDA_EMULATOR_CACHE;
}

const std::string& border() {
  static const std::string kText = [] {
    const fs::path sources = CUDA_EMULATOR_SOURCES;
    std::string all = CUDA_EMULATOR_COMPILER;
    for (const char* file : {"kernel_border.h", "device_code.h", "ptx_code.h"}) {
      all += read_file(sources / file);
    }
    for (const std::string& flag : flags()) all += flag;
    return all;
  }();
  return kText;
}

// What the emulator calls, behind the kernel.
std::string with_entry(const std::string& given) {
  std::string text = rewrite_for_host(given);
  std::smatch bounds;
  static const std::regex kLaunchBounds(R"(__launch_bounds__\(([^,)]*))");
  const bool is_bound = std::regex_search(text, bounds, kLaunchBounds);
  bool is_collective = false;
  for (const char* word :
       {"__sync", "__shfl", "_sync(", "ptx_mma", "ptx_ldmatrix", "ptx_cp_async"}) {
    is_collective = is_collective || text.find(word) != std::string::npos;
  }
  const bool copies = text.find("ptx_cp_async") != std::string::npos;
  std::ostringstream out;
  out << text << R"(
extern "C" {
__attribute__((weak)) extern unsigned char __start_emulated_shared[];
__attribute__((weak)) extern unsigned char __stop_emulated_shared[];
__attribute__((visibility("default"))) void emulated_bind(
    emulated::KernelServices* services, emulated::KernelFacts* facts) {
  emulated::services = services;
  *facts = {sizeof(Params), NUM_POINTERS, )"
      << (is_bound ? bounds[1].str() : "1024") << ", " << (is_collective ? "true" : "false")
      << R"(, __start_emulated_shared, __stop_emulated_shared};
}
__attribute__((visibility("default"))) void emulated_run(const void* parameters) {
)" << (copies ? "  emulated::my_copies().count = emulated::my_copies().groups = 0;\n" : "")
      << "  KERNEL_NAME(*(const Params*)parameters);\n}\n}\n";
  return out.str();
}

// Runs the compiler; its complaints go to `log`.
bool compile(const fs::path& source, const fs::path& target, const fs::path& log) {
  std::vector<std::string> words = {CUDA_EMULATOR_COMPILER};
  words.insert(words.end(), flags().begin(), flags().end());
  words.insert(words.end(), {"-I", CUDA_EMULATOR_SOURCES, "-include", "device_code.h",
                             source.string(), "-o", target.string()});
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  pid_t child = 0;
  int status = posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (status == 0) waitpid(child, &status, 0);
  return status == 0;
}

bool run_program(_nvrtcProgram& program) {
  const fs::path folder = cache_folder();
  fs::create_directories(folder);
  const fs::path kept = folder / (hash_of(border() + program.text) + ".so");
  program.code = kept.string() + "\n";
  if (fs::exists(kept)) return true;
  // Several processes, and threads of one, may make the same.
  static std::atomic<unsigned> count{0};
  const std::string own =
      (folder / (std::to_string(getpid()) + "_" + std::to_string(count++))).string();
  std::ofstream(own + ".cpp") << with_entry(program.text);
  const bool is_made = compile(own + ".cpp", own + ".so", own + ".log");
  if (is_made) {
    fs::rename(own + ".so", kept);
  } else {
    program.log = read_file(own + ".log");
  }
  for (const char* ending : {".cpp", ".log"}) fs::remove(own + ending);
  return is_made;
}

}  // namespace

extern "C" {

// No NVRTC has this version, so its machine code is never taken for that of another; nor is that of
// an emulator which gave kernels other definitions.
nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 1'000'000 + static_cast<int>(std::stoul(hash_of(border()).substr(0, 6), nullptr, 16));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char*, int headers,
                               const char* const*, const char* const*) {
  if (headers != 0) return NVRTC_ERROR_INVALID_INPUT;
  *program = new _nvrtcProgram{text, "", ""};
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  // Instructions of one architecture alone, such as those of warpgroups, are not emulated.
  for (int i = 0; i < count; ++i) {
    const std::string_view option = options[i];
    if (option.starts_with("--gpu-architecture=") && option.ends_with("a")) {
      program->log = "the emulator compiles for no " + std::string(option.substr(19)) + "\n";
      return NVRTC_ERROR_INVALID_OPTION;
    }
  }
  try {
    if (run_program(*program)) return NVRTC_SUCCESS;
  } catch (const std::exception& error) {
    program->log = error.what();
  }
  return NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  *size = program->code.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* code) {
  std::memcpy(code, program->code.c_str(), program->code.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  *size = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}

}  // extern "C"

}  // namespace tutti::cuda_emulator
