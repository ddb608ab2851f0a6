#!/usr/bin/env python3
"""Waits until a server and its models are ready: wait_ready.py HOST:PORT SERVER_PID MODEL...

Fails at once when the server's process is gone, and after two minutes in any case.
"""

import os
import sys
import time

import tritonclient.grpc as grpcclient
from tritonclient.utils import InferenceServerException


def is_ready(client, models):
    try:
        return client.is_server_ready() and all(client.is_model_ready(name) for name in models)
    except InferenceServerException:
        return False


def main():
    url, pid, models = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    client = grpcclient.InferenceServerClient(url)
    deadline = time.monotonic() + 120
    while not is_ready(client, models):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            raise SystemExit(f"the server at {url} ended before it was ready") from None
        if time.monotonic() > deadline:
            raise SystemExit(f"the server at {url} was not ready after 120 s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
