#include "server/config/labels.h"

#include <fstream>

#include "server/names.h"

namespace tutti::server {

Result<OutputLabels> read_labels(const ConfigFile& file, const std::filesystem::path& folder) {
  OutputLabels labels;
  for (int i = 0; i < file.config().output_size(); ++i) {
    const inference::ModelOutput& output = file.config().output(i);
    const std::string& name = output.label_filename();
    if (name.empty()) continue;
    const std::string field = str_cat("output[", i, "].label_filename");
    // A configuration may come over the network: it must not read what lies elsewhere.
    if (!check_model_name(name).ok()) {
      return file.error(field, "'", printable(name),
                        "' is no plain file name in the model's folder");
    }
    std::ifstream stream(folder / name);
    if (!stream) {
      return file.error(field, "file '", printable((folder / name).string()), "' cannot be read");
    }
    std::vector<std::string>& lines = labels[output.name()];
    for (std::string line; std::getline(stream, line);) {
      if (line.ends_with('\r')) line.pop_back();
      lines.push_back(std::move(line));
    }
  }
  return labels;
}

}  // namespace tutti::server
