"""Scanning and filtering never open a connection, with real models or without."""

from __future__ import annotations

import socket

import numpy as np
import pytest

from builders import clustered, write_jsonl
from ragsieve.cli.main import run


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("a connection was attempted")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)


@pytest.mark.models
def test_embed_retrieve_scan_filter_offline(tmp_path, no_network, models_dir):
    texts, _ = clustered(np.random.default_rng(2), 25)
    corpus = write_jsonl(
        tmp_path / "c.jsonl", [{"id": f"d{i}", "text": f"{t} {i}"} for i, t in enumerate(texts)]
    )
    queries = write_jsonl(tmp_path / "q.jsonl", [{"id": "q", "text": "who built the bridge"}])
    rows, contexts = tmp_path / "e.npy", tmp_path / "x.jsonl"
    models = ["--models-dir", str(models_dir)]
    shared = ["--documents", str(corpus), *models]
    assert run(["embed", *shared, "--output", str(rows)]) == 0
    files = ["--documents", str(corpus), "--embeddings", str(rows)]
    ask = ["--queries", str(queries), "--output", str(contexts), "--depth", "25", *models]
    assert run(["retrieve", *files, *ask]) == 0
    assert run(["scan", *files, "--output", str(tmp_path / "s.jsonl")]) in {0, 1}
    sieve = ["filter", "--input", str(contexts), "--output", str(tmp_path / "p.jsonl")]
    # Complete: a scan of the corpus tells the rest, and no model is asked.
    assert run([*sieve, *files, *models]) in {0, 1}
    assert run([*sieve, *models]) == 3
    # Complete: the embedded models measured everything.
    assert run([*sieve, "--profile", "paper", *models]) in {0, 1}


def test_a_model_that_is_not_here_is_an_error_and_not_a_download(tmp_path, no_network, capsys):
    corpus = write_jsonl(tmp_path / "c.jsonl", [{"id": "a", "text": "x"}])
    arguments = ["embed", "--documents", str(corpus), "--output", str(tmp_path / "e.npy")]
    assert run([*arguments, "--models-dir", str(tmp_path / "none")]) == 2
    assert "ragsieve models pull" in capsys.readouterr().err
    assert run([*arguments, "--encoder", "bge-m3", "--encoder-path", str(tmp_path)]) == 2
    assert run([*arguments, "--encoder", "unheard-of"]) == 2
    assert not (tmp_path / "e.npy").exists()


def test_scan_and_filter_without_models_open_no_connection(tmp_path, no_network, capsys):
    texts, rows = clustered(np.random.default_rng(3), 30)
    corpus = [{"id": f"d{i}", "text": text} for i, text in enumerate(texts)]
    entries = [row | {"rank": rank} for rank, row in enumerate(corpus, 1)]
    write_jsonl(tmp_path / "c.jsonl", corpus)
    write_jsonl(tmp_path / "x.jsonl", [{"query_id": "q", "query": "?", "documents": entries}])
    np.save(tmp_path / "e.npy", rows)
    files = ["--documents", f"{tmp_path}/c.jsonl", "--embeddings", f"{tmp_path}/e.npy"]
    assert run(["scan", *files, "--output", f"{tmp_path}/s.jsonl"]) in {0, 1}
    sieve = ["filter", "--input", f"{tmp_path}/x.jsonl", "--output", f"{tmp_path}/p.jsonl"]
    # "auto" finds no embedded model here and measures without: partial, not a download.
    sieve += ["--profile", "paper"]
    assert run([*sieve, "--models-dir", f"{tmp_path}/none"]) == 3
    assert "no causal language model is configured" in capsys.readouterr().out
    assert run([*sieve, "--models-dir", f"{tmp_path}/none", "--causal-model", "embedded"]) == 2
    assert "ragsieve models pull" in capsys.readouterr().err


def test_the_block_blocks(no_network):
    with pytest.raises(AssertionError, match="connection was attempted"):
        socket.create_connection(("127.0.0.1", 9))
    with socket.socket() as open_, pytest.raises(AssertionError, match="connection"):
        open_.connect(("127.0.0.1", 9))
