#include "server/trace/file.h"

#include <memory>
#include <utility>

#include "base/str_cat.h"
#include "server/names.h"

namespace tutti::server {

TraceFile::~TraceFile() {
  if (file_.is_open()) file_ << "]";
}

void TraceFile::append(const std::string& entries) {
  if (entries.empty()) return;
  if (!file_.is_open()) {
    file_.open(path_, std::ios::trunc);
    file_ << '[' << entries;
  } else {
    file_ << ',' << entries;
  }
  if (!file_.flush()) log_->error("trace file '{}' cannot be written", printable(path_));
}

void TraceFile::write_next(const std::string& entries) {
  const std::string path = str_cat(path_, ".", next_index_++);
  std::ofstream file(path, std::ios::trunc);
  file << '[' << entries << ']';
  if (!file.flush()) log_->error("trace file '{}' cannot be written", printable(path));
}

TraceCollection::~TraceCollection() {
  if (entries_.empty()) return;
  if (frequency_ > 0) {
    file_->write_next(entries_);
  } else {
    file_->append(entries_);
  }
}

void TraceCollection::add(const std::string& entries) {
  const bool is_counted = left_ > 0;
  if (frequency_ == 0 && !is_counted) return file_->append(entries);
  if (!entries_.empty()) entries_ += ',';
  entries_ += entries;
  ++collected_;
  if (is_counted) --left_;
  const bool is_full = frequency_ > 0 && collected_ == frequency_;
  const bool is_complete = is_counted && left_ == 0;
  if (!is_full && !is_complete) return;
  file_->write_next(entries_);
  entries_.clear();
  collected_ = 0;
}

}  // namespace tutti::server
