// Content codings of HTTP bodies: gzip and deflate (RFC 9110, 8.4.1), by zlib.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "server/byte_buffer.h"

namespace tutti::server {

enum class Coding { kIdentity, kGzip, kDeflate };

// The value of Content-Encoding. UNIMPLEMENTED for codings that are not known and for lists.
Result<Coding> parse_content_encoding(std::string_view value);

// What Accept-Encoding likes best of gzip and deflate; identity when it takes neither.
Coding choose_coding(std::string_view accept_encoding);

std::string_view coding_name(Coding coding);  // "gzip"

// At most `limit` bytes come out, and no more are made. INVALID_ARGUMENT: data that are not of that
// coding, cut off or followed by more, and what would be above the limit. "deflate" is taken with
// zlib's header, as the RFC has it, and without, as some clients send it.
Result<ByteBuffer> decompress(std::span<const std::byte> data, Coding coding, std::size_t limit);

Result<ByteBuffer> compress(std::span<const std::span<const std::byte>> pieces, Coding coding);

}  // namespace tutti::server
