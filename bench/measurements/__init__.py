"""docs/measurements.json and what is written from it."""
