#include "server/http/compression.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "server/http/text.h"
#include "server/names.h"

namespace tutti::server {
namespace {

constexpr int kZlibWindow = 15;
constexpr int kGzipWindow = 15 + 16;
constexpr int kBareWindow = -15;
constexpr std::size_t kStep = std::size_t{1} << 20;

Status no_memory() {
  return Status(StatusCode::kResourceExhausted, "no memory left to convert the body");
}

uInt piece(std::size_t bytes) {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

// zlib's interface counts in 32 bits; these feed it any number of bytes.
void feed(z_stream& stream, std::span<const std::byte>& data) {
  if (stream.avail_in > 0 || data.empty()) return;
  const uInt count = piece(data.size());
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  stream.avail_in = count;
  data = data.subspan(count);
}

// Room for more output, never beyond `limit`.
bool make_room(z_stream& stream, ByteBuffer& out, std::size_t limit) {
  const std::size_t used = out.size();
  const std::size_t step = std::min(limit - used, std::max(kStep, used / 2));
  if (!out.resize(used + step)) return false;
  stream.next_out = reinterpret_cast<Bytef*>(out.data() + used);
  stream.avail_out = piece(step);
  // resize() may have made more room than one call of zlib counts.
  return out.resize(used + stream.avail_out);
}

struct Inflater {
  z_stream stream{};
  explicit Inflater(int window) { ready = inflateInit2(&stream, window) == Z_OK; }
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  bool ready = false;
};

struct Deflater {
  z_stream stream{};
  explicit Deflater(int window) {
    ready = deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Deflater() {
    if (ready) deflateEnd(&stream);
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  bool ready = false;
};

// RFC 1950: the first two bytes, as a big-endian number, are a multiple of 31; method 8.
bool has_zlib_header(std::span<const std::byte> data) {
  if (data.size() < 2) return false;
  const unsigned first = std::to_integer<unsigned>(data[0]);
  return (first & 15U) == 8 && (first * 256 + std::to_integer<unsigned>(data[1])) % 31 == 0;
}

int window_of(std::span<const std::byte> data, Coding coding) {
  if (coding == Coding::kGzip) return kGzipWindow;
  return has_zlib_header(data) ? kZlibWindow : kBareWindow;
}

}  // namespace

Result<Coding> parse_content_encoding(std::string_view value) {
  const std::string_view name = trim(value);
  if (name.empty() || equals_ignoring_case(name, "identity")) return Coding::kIdentity;
  if (equals_ignoring_case(name, "gzip") || equals_ignoring_case(name, "x-gzip")) {
    return Coding::kGzip;
  }
  if (equals_ignoring_case(name, "deflate")) return Coding::kDeflate;
  return unimplemented("Content-Encoding '", printable(value),
                       "' is not supported, expected gzip, deflate or identity");
}

Coding choose_coding(std::string_view accept_encoding) {
  double best = 0;
  Coding chosen = Coding::kIdentity;
  for (const std::string_view item : split(accept_encoding, ',')) {
    const auto parts = split(item, ';');
    const std::string_view name = trim(parts.front());
    double weight = 1;
    if (parts.size() > 1) {
      const std::string_view text = trim(parts[1]);
      if (text.starts_with("q=") &&
          std::from_chars(text.data() + 2, text.data() + text.size(), weight).ec != std::errc()) {
        weight = 0;
      }
    }
    Coding coding = Coding::kIdentity;
    if (equals_ignoring_case(name, "gzip")) coding = Coding::kGzip;
    if (equals_ignoring_case(name, "deflate")) coding = Coding::kDeflate;
    if (coding == Coding::kIdentity || weight <= best) continue;
    best = weight;
    chosen = coding;
  }
  return chosen;
}

std::string_view coding_name(Coding coding) {
  switch (coding) {
    case Coding::kGzip: return "gzip";
    case Coding::kDeflate: return "deflate";
    case Coding::kIdentity: break;
  }
  return "identity";
}

Result<ByteBuffer> decompress(std::span<const std::byte> data, Coding coding, std::size_t limit) {
  const std::string_view name = coding_name(coding);
  Inflater inflater(window_of(data, coding));
  if (!inflater.ready) return no_memory();
  z_stream& stream = inflater.stream;
  ByteBuffer out;
  std::byte beyond{};  // where a byte above the limit would come out
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    feed(stream, data);
    const bool is_full = out.size() == limit;
    if (is_full) {
      stream.next_out = reinterpret_cast<Bytef*>(&beyond);
      stream.avail_out = 1;
    } else if (!make_room(stream, out, limit)) {
      return no_memory();
    }
    const uInt in_before = stream.avail_in;
    const uInt room = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    const bool has_moved = in_before != stream.avail_in || room != stream.avail_out;
    if (is_full && stream.avail_out == 0) {
      return invalid_argument("the body is above ", limit,
                              " bytes after decompression, the limit of --http-max-input-size");
    }
    if (!is_full && !out.resize(out.size() - stream.avail_out)) return no_memory();
    if (state == Z_STREAM_END) break;
    if (state != Z_OK && state != Z_BUF_ERROR) {
      return invalid_argument("the body is no ", name, " data", stream.msg == nullptr ? "" : ": ",
                              stream.msg ? stream.msg : "");
    }
    if (!has_moved && data.empty()) return invalid_argument("the body's ", name, " data are cut");
  }
  if (stream.avail_in > 0 || !data.empty()) {
    return invalid_argument("the body goes on after its ", name, " data");
  }
  return out;
}

Result<ByteBuffer> compress(std::span<const std::span<const std::byte>> pieces, Coding coding) {
  Deflater deflater(coding == Coding::kGzip ? kGzipWindow : kZlibWindow);
  if (!deflater.ready) return no_memory();
  z_stream& stream = deflater.stream;
  constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  ByteBuffer out;
  std::size_t next = 0;
  std::span<const std::byte> data;
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    while (data.empty() && next < pieces.size()) data = pieces[next++];
    feed(stream, data);
    if (!make_room(stream, out, kNoLimit)) return no_memory();
    const bool is_last = data.empty() && next == pieces.size();
    state = deflate(&stream, is_last ? Z_FINISH : Z_NO_FLUSH);
    if (state == Z_STREAM_ERROR) return internal_error("zlib: the body could not be compressed");
    if (!out.resize(out.size() - stream.avail_out)) return no_memory();
  }
  return out;
}

}  // namespace tutti::server
