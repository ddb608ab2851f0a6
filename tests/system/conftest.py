import pytest
from sample_models import Tutti


@pytest.fixture(scope="session")
def tutti():
    return Tutti()
