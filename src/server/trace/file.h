// Trace files as Triton writes them: JSON arrays of trace entries.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "server/log.h"

namespace tutti::server {

// One path, shared by all settings that name it. Used by one thread at a time.
class TraceFile {
 public:
  TraceFile(std::string path, Log log) : path_(std::move(path)), log_(std::move(log)) {}
  ~TraceFile();  // closes the array
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  void append(const std::string& entries);      // to the file itself
  void write_next(const std::string& entries);  // a whole file of its own: path.0, path.1, ..

 private:
  const std::string path_;
  const Log log_;
  std::ofstream file_;
  std::uint64_t next_index_ = 0;
};

// What one setting collects for a file. With a frequency, every so many traces make a file with an
// index. With a count, the traces are kept until all of them are there, which then make one.
class TraceCollection {
 public:
  TraceCollection(std::shared_ptr<TraceFile> file, std::uint32_t frequency, std::int32_t count)
      : file_(std::move(file)), frequency_(frequency), left_(count) {}
  ~TraceCollection();  // writes what is left
  TraceCollection(const TraceCollection&) = delete;
  TraceCollection& operator=(const TraceCollection&) = delete;

  void add(const std::string& entries);  // of one trace

 private:
  const std::shared_ptr<TraceFile> file_;
  const std::uint32_t frequency_;
  std::int32_t left_;
  std::uint32_t collected_ = 0;
  std::string entries_;
};

}  // namespace tutti::server
