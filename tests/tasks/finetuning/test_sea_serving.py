"""Serving of an eliminator: its chat template, the merged model, and the commands that serve it."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import ConfigurationError
from tasks.finetuning.encoding import encode, encode_prompt, render_prompt, set_chat_template
from tasks.finetuning.local import LocalEliminator
from tasks.finetuning.merging import merge, transformers_merged, vllm_merged, vllm_with_adapter
from tasks.finetuning.models import open_tokenizer
from tasks.finetuning.settings import FinetuningSettings
from tasks.finetuning.training import Trained, train
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings
from tests.tasks.finetuning.conftest import TEMPLATE, pair

pytestmark = pytest.mark.slow

TAUGHT = tuple(pair(number) for number in range(2))


def trained_on(model: Path, output: Path) -> Trained:
    changes: dict[str, Any] = {"rank": 4, "batch_size": 2, "device_batch_size": 2, "max_tokens": 256}
    settings = FinetuningSettings(model=str(model), epochs=3, learning_rate=0.05, dropout=0, **changes)
    return train(TAUGHT, settings, output)


@pytest.fixture(scope="module")
def trained(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_on(tiny_model, tmp_path_factory.mktemp("served") / "out")


@pytest.fixture(scope="module")
def tied(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """An eliminator whose base has one matrix for the input embeddings and the output head."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("tied")
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(folder / "model")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder / "model")
    return trained_on(folder / "model", folder / "out")


@pytest.mark.slow
def test_a_model_without_a_chat_template_is_trained_and_saved_with_one_that_adds_nothing(
    trained: Trained,
) -> None:
    from transformers import AutoTokenizer

    served = AutoTokenizer.from_pretrained(trained.adapter)
    text = TAUGHT[0].prompt.text
    assert render_prompt(text, served) == text
    (example, _) = encode(TAUGHT, open_tokenizer(str(trained.adapter)), 256).examples
    # as endpoints tokenize a chat request: the template, and no further special token
    asked = served.apply_chat_template(
        [{"role": "user", "content": text}], add_generation_prompt=True, return_dict=False
    )
    assert example["input_ids"][: len(asked)] == asked
    assert (trained.adapter / "chat_template.jinja").is_file()


def test_the_template_begins_a_text_as_the_tokenizer_does(tiny_model: Path) -> None:
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    plain = tokenizer("Judge.")["input_ids"]
    assert plain[0] == 1
    set_chat_template(tokenizer)
    assert render_prompt("Judge.", tokenizer) == "<s>Judge."
    assert encode_prompt("Judge.", tokenizer) == plain


@pytest.mark.parametrize(
    ("own", "rendered"),
    [(TEMPLATE, "<user>Judge.</user><answer>"), ("{{ strftime_now('%d %b') }}" + TEMPLATE, "Judge.")],
)
def test_a_model_keeps_its_own_template_unless_it_writes_the_date(
    tiny_model: Path, own: str, rendered: str
) -> None:
    tokenizer = open_tokenizer(str(tiny_model))
    tokenizer.chat_template = own
    set_chat_template(tokenizer)
    assert render_prompt("Judge.", tokenizer) == rendered


@pytest.mark.parametrize("which", ["trained", "tied"])
def test_a_merged_model_computes_what_the_adapter_does(
    which: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    eliminator: Trained = request.getfixturevalue(which)
    found = merge(eliminator.adapter, tmp_path / "merged")
    assert (found.rank, found.model) == (4, tmp_path / "merged")
    prompt = torch.tensor([encode_prompt(TAUGHT[0].prompt.text, AutoTokenizer.from_pretrained(found.model))])
    model = AutoModelForCausalLM.from_pretrained(found.model).eval()
    adapted = LocalEliminator.open(eliminator.adapter)._model
    base = AutoModelForCausalLM.from_pretrained(found.base).eval()
    with torch.inference_mode():
        merged, separate, untrained = (one(prompt).logits for one in (model, adapted, base))
    assert torch.allclose(merged, separate, atol=1e-4)
    assert not torch.allclose(merged, untrained, atol=1e-2)
    template = "chat_template.jinja"
    assert (found.model / template).read_bytes() == (eliminator.adapter / template).read_bytes()


def test_a_folder_in_use_is_not_overwritten(trained: Trained, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="is not empty"):
        merge(trained.adapter, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_commands_serve_where_the_backbone_asks(tmp_path: Path) -> None:
    settings = load_backbone_settings(find_conf(), "eliminator")
    assert (settings.base_url, settings.model) == ("http://127.0.0.1:8001/v1", "eliminator")
    adapter = vllm_with_adapter(Path("OUT/adapter"), "BASE", 64)
    assert shlex.split(adapter)[3:] == [
        "--enable-lora", "--max-lora-rank", "64", "--lora-modules", "eliminator=OUT/adapter",
        "--chat-template", "OUT/adapter/chat_template.jinja", "--host", "127.0.0.1", "--port", "8001",
    ]  # fmt: skip
    assert vllm_merged(Path("a b")).startswith("vllm serve 'a b' --served-model-name eliminator ")
    assert "--max-lora-rank 32 " in vllm_with_adapter(Path("a"), "b", 17)
    described = (find_conf() / "backbones" / "eliminator.yaml").read_text(encoding="utf-8")
    assert adapter in described and vllm_merged(Path("eliminator")) in described
    in_place, _, serve = transformers_merged(tmp_path / "eliminator").partition(" && ")
    assert in_place == f"cd {tmp_path}" and serve in described
