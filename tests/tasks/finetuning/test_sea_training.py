"""Fine-tuning on a tiny, randomly initialised model, on the CPU: what is learnt, on which tokens, and resumed."""

import json
import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError, ConfigurationError, DataError
from tasks.finetuning.encoding import IGNORED, encode, encode_prompt
from tasks.finetuning.local import LocalEliminator
from tasks.finetuning.models import linear_modules, open_model, open_tokenizer
from tasks.finetuning.pairs import TrainingPair
from tasks.finetuning.settings import FinetuningSettings
from tasks.finetuning.training import Trained, last_checkpoint, train
from tests.tasks.finetuning.conftest import TEMPLATE, pair

pytestmark = pytest.mark.slow

PAIRS = tuple(pair(number) for number in range(16))
TAUGHT = tuple(pair(number, sql="1") for number in range(4))


@pytest.fixture
def tiny(tiny_model: Path) -> FinetuningSettings:
    return FinetuningSettings(
        model=str(tiny_model),
        rank=4,
        alpha=8,
        learning_rate=0.02,
        batch_size=8,
        device_batch_size=4,
        epochs=3,
        max_tokens=256,
        checkpoint_every=2,
    )


@pytest.fixture(scope="module")
def trained(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """An eliminator that has learnt to say 1."""
    settings = FinetuningSettings(
        model=str(tiny_model),
        rank=16,
        alpha=32,
        dropout=0,
        learning_rate=0.005,
        batch_size=4,
        device_batch_size=4,
        epochs=100,
        max_tokens=256,
    )
    return train(TAUGHT, settings, tmp_path_factory.mktemp("eliminator") / "out")


class TestEncoding:
    def test_the_loss_is_on_the_response_only(self, tiny_model: Path) -> None:
        tokenizer = open_tokenizer(str(tiny_model))
        (example,) = encode([pair(1)], tokenizer, 256).examples
        prompt = encode_prompt(pair(1).prompt.text, tokenizer)
        assert example["input_ids"][: len(prompt)] == prompt
        assert example["labels"] == [IGNORED] * len(prompt) + example["input_ids"][len(prompt) :]
        assert tokenizer.decode(example["input_ids"][len(prompt) :]) == "SELECT 1</s>"
        assert len(example["attention_mask"]) == len(example["input_ids"])

    def test_a_chat_template_wraps_the_prompt_as_an_endpoint_would(self, tiny_model: Path) -> None:
        tokenizer = open_tokenizer(str(tiny_model))
        tokenizer.chat_template = TEMPLATE
        ids = encode_prompt("Judge.", tokenizer)
        assert tokenizer.decode(ids) == "<user>Judge.</user><answer>"

    def test_too_long_pairs_are_left_out_whole(self, tiny_model: Path) -> None:
        tokenizer = open_tokenizer(str(tiny_model))
        lengths = [len(example["input_ids"]) for example in encode(PAIRS, tokenizer, 256).examples]
        encoded = encode([*PAIRS, pair(3, sql="SELECT " + "1" * 99)], tokenizer, max(lengths))
        assert (len(encoded.examples), encoded.too_long) == (len(PAIRS), 1)

    def test_lora_is_on_all_linear_projections_and_the_output_head(self, tiny_model: Path) -> None:
        assert linear_modules(open_model(str(tiny_model), "float32")) == [
            "down_proj", "gate_proj", "k_proj", "lm_head", "o_proj", "q_proj", "up_proj", "v_proj",
        ]  # fmt: skip


class TestTraining:
    def test_the_loss_falls_and_every_step_is_logged(self, tiny: FinetuningSettings, tmp_path: Path) -> None:
        logged: dict[int, dict[str, float]] = {}

        def log(step: int, metrics: Any) -> None:
            logged.setdefault(step, {}).update(metrics)

        found = train(PAIRS, tiny, tmp_path / "out", logged=log)
        assert found == Trained(tmp_path / "out" / "adapter", 6, 0, 16, 0, logged[6]["loss"])
        assert logged[6]["loss"] < logged[1]["loss"] - 0.3
        rates = [round(logged[step]["learning_rate"], 4) for step in range(1, 7)]
        assert rates[0] == 0 and rates[1] == 0.02 and rates[1:] == sorted(rates[1:], reverse=True)

    @pytest.mark.slow
    def test_a_stopped_training_continues_to_the_same_adapter(
        self, tiny: FinetuningSettings, tmp_path: Path
    ) -> None:
        whole = train(PAIRS, tiny, tmp_path / "whole")
        steps = count(1)
        stopped = train(PAIRS, tiny, tmp_path / "parts", stop=lambda: next(steps) == 3)
        assert (stopped.finished, stopped.steps) == (False, 3) and not stopped.adapter.exists()
        broken = tmp_path / "parts" / "checkpoints" / "checkpoint-4"
        shutil.copytree(tmp_path / "parts" / "checkpoints" / "checkpoint-3", broken)
        (broken / "trainer_state.json").unlink()
        assert last_checkpoint(tmp_path / "parts") == broken.with_name("checkpoint-3")
        resumed = train(PAIRS, tiny, tmp_path / "parts")
        assert (resumed.finished, resumed.steps, resumed.resumed_from) == (True, 6, 3)
        assert resumed.loss == pytest.approx(whole.loss)
        assert weights(resumed) == weights(whole)

    @pytest.mark.slow
    def test_a_finished_training_is_not_repeated(self, trained: Trained) -> None:
        record = json.loads((trained.adapter.parent / "training.json").read_text())
        settings = FinetuningSettings(**record["settings"])
        before = (trained.adapter / "adapter_model.safetensors").stat().st_mtime_ns
        assert train(TAUGHT, settings, trained.adapter.parent) == trained
        assert (trained.adapter / "adapter_model.safetensors").stat().st_mtime_ns == before

    @pytest.mark.parametrize(
        ("pairs", "changes", "said"),
        [
            (TAUGHT[:-1], {}, "holds a training with other pairs"),
            (TAUGHT, {"rank": 3}, "other settings (rank 16, not 3)"),
        ],
    )
    def test_a_folder_is_not_continued_with_something_else(
        self, trained: Trained, pairs: Sequence[TrainingPair], changes: dict[str, int], said: str
    ) -> None:
        record = json.loads((trained.adapter.parent / "training.json").read_text())
        with pytest.raises(ConfigurationError) as caught:
            train(pairs, FinetuningSettings(**(record["settings"] | changes)), trained.adapter.parent)
        assert said in str(caught.value)

    def test_no_model_and_no_pair_that_fits_are_told_in_words(
        self, tiny: FinetuningSettings, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigurationError, match="cannot be opened"):
            train(PAIRS, tiny.model_copy(update={"model": str(tmp_path / "none")}), tmp_path / "a")
        with pytest.raises(DataError, match="more than 16 tokens"):
            train(PAIRS, tiny.model_copy(update={"max_tokens": 16}), tmp_path / "b")
        assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


class TestLocalEliminator:
    async def test_it_answers_greedily_with_what_it_learnt(self, trained: Trained) -> None:
        eliminator = LocalEliminator.open(trained.adapter)
        request = Request((Message("user", TAUGHT[1].prompt.text),))
        first, second = await eliminator.complete(request), await eliminator.complete(request)
        assert first.text == second.text == "1"
        assert not first.truncated
        assert first.call.usage.output == 2 and first.call.cost_usd is None

    async def test_a_prompt_too_long_for_the_model_is_refused(self, trained: Trained) -> None:
        eliminator = LocalEliminator.open(trained.adapter)
        with pytest.raises(BackboneError, match="512") as caught:
            await eliminator.complete(Request((Message("user", "x" * 600),)))
        assert not caught.value.transient and not caught.value.fatal

    def test_a_folder_without_an_adapter_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="There is no adapter in"):
            LocalEliminator.open(tmp_path)


def weights(trained: Trained) -> dict[str, list[Any]]:
    from safetensors.torch import load_file

    loaded = load_file(trained.adapter / "adapter_model.safetensors")
    return {name: tensor.flatten().tolist() for name, tensor in loaded.items()}
