"""Memory of a server that has answered for a while; bench/soak.py is the long form of it."""

import pytest
import soak

# Half a minute on two idle cores; each turn is some 50 requests of every kind.
WARM_UP, TURNS = 50, 350
MOST_GROWTH = 8 << 20


@pytest.fixture
def server(tmp_path):
    server = soak.start_server(tmp_path)
    yield server
    assert server.stop() == 0, server.log.read_text()


def test_memory_is_flat(server):
    mix = soak.Mix(server)
    readings = []
    for turn in range(WARM_UP + TURNS):
        mix.turn()
        if turn >= WARM_UP:
            readings.append(soak.resident_bytes(server.process))
    mix.close()
    growth = max(readings) - readings[0]
    print(f"{mix.requests} requests, grown by {growth / 1e6:.1f} MB")
    assert growth < MOST_GROWTH
