"""HTTP by hand: what no client library sends."""

import json
import socket


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class Connection:
    def __init__(self, url, timeout=60):
        host, port = url.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.stream = self.socket.makefile("rb")

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part.encode() if isinstance(part, str) else part)

    def request(self, method, path, body=b"", headers=()):
        lines = [f"{method} {path} HTTP/1.1", "Host: test"]
        lines += [f"{name}: {value}" for name, value in dict(headers).items()]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines) + "\r\n\r\n", body)
        return self.response(has_body=method != "HEAD")

    def response(self, has_body=True):
        """The next response; None when the server has closed the connection."""
        line = self.stream.readline()
        if not line:
            return None
        status = int(line.split()[1])
        headers = {}
        while (line := self.stream.readline().strip()) != b"":
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        body = b""
        if has_body and headers.get("transfer-encoding") == "chunked":
            while size := int(self.stream.readline(), 16):
                body += self.stream.read(size)
                self.stream.readline()
            self.stream.readline()
        elif has_body:
            body = self.stream.read(int(headers.get("content-length", 0)))
        return Response(status, headers, body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()


def ask(url, method, path, body=b"", headers=()):
    """One request on a connection of its own."""
    if isinstance(body, dict | list):
        body = json.dumps(body)
    with Connection(url) as connection:
        return connection.request(
            method, path, body.encode() if isinstance(body, str) else body, headers
        )
