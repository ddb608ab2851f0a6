# Entry points for people and CI; the work is in scripts/. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup build test test-cuda-emulated test-large test-sanitizers test-asan-server fuzz demo bench zoo zoo-ci format lint dist clean

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

setup: ## Debian packages and the Python venv (.venv)
	@scripts/setup

build: ## Everything, optimised, in build/release
	@scripts/build release

test: ## Unit tests and Python tests on the release build
	@scripts/test

test-sanitizers: ## Unit tests under ASan + UBSan, then under TSan
	@scripts/test-sanitizers

test-asan-server: ## The server under ASan + UBSan, asked by all protocol and system tests
	@scripts/test-asan-server

fuzz: ## Fuzzers for all that comes from outside (clang): SECONDS=60 each, SURFACES="onnx http"
	@scripts/fuzz $(or $(SECONDS),60) $(SURFACES)

test-large: ## The largest tensors over every front end: minutes, and up to 12 GB of memory
	@scripts/build release tutti grpc_huge
	@TUTTI_LARGE=1 TUTTI_BINARY=$(CURDIR)/build/release/bin/tutti .venv/bin/python -m pytest -s tests/system/test_huge_tensors.py

test-cuda-emulated: ## All tests of the CUDA backend on emulated devices: many minutes
	@scripts/test-cuda-emulated

demo: ## Compile the sample model for 1, 2 and 4 ranks, serve it, make out/clip.mp4
	@scripts/demo

bench: ## All benchmarks of bench/, reports in build/reports
	@scripts/bench

zoo: ## Export, compile and compare every Diffusers transformer; writes docs/zoo.md (needs PyTorch)
	@scripts/zoo

zoo-ci: ## A fixed third of the zoo, held to what docs/zoo.json promises
	@scripts/zoo --subset ci

format: ## Rewrite C++ and Python files in the house format
	@scripts/format

lint: ## Format check, clang-tidy, ruff
	@scripts/lint

dist: ## Relocatable bundle in dist/
	@scripts/dist

clean: ## Remove build outputs; the venv stays
	@rm -rf build dist out
