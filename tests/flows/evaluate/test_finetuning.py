"""`crosscheck finetune`: training pairs from runs, and a training that is resumed and whose adapter loads."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.evaluate.finetuning import TrainingPair, TrainingPairs, read_pairs, write_pairs
from tasks.core.errors import DataError
from tasks.results.mlflow.experiment import logged_by_library
from tasks.settings.home import Home, find_conf
from tests.support import in_process
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI

LIMIT = ("--limit", "8")
TRAIN = ("--set", "benchmark.questions=train.json", "--set", "benchmark.train=null")


def pair(number: int, response: str = "SELECT 1") -> TrainingPair:
    text = f"### Instruction\nJudge.\n\n### Input\nq{number}\n\n### Response\nQuery:\n"
    prompt = [{"role": "user", "content": text}]
    completion = [{"role": "assistant", "content": response}]
    return TrainingPair(prompt, completion, True, "train", "museum", str(number))


def written(path: Path, *pairs: TrainingPair) -> Path:
    made = TrainingPairs()
    for each in pairs:
        made.add(each)
    write_pairs(path, made)
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class TestPairs:
    def test_pairs_are_written_and_read_line_by_line_and_a_prompt_once(self, tmp_path: Path) -> None:
        first, second = pair(1, "SELECT 'é\u2028\n'"), pair(2)
        file = written(tmp_path / "pairs.jsonl", first, second, pair(1, "SELECT 2"))
        assert read_pairs(file) == (first, second)
        assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]

    @pytest.mark.parametrize(("text", "said"), [
        (None, "No such file"),
        ("", "has no training pair"),
        ("{}\n", "line 1: prompt: Field required"),
        ("{", "line 1: "),
    ])  # fmt: skip
    def test_a_file_without_pairs_says_where_and_what_to_do(
        self, tmp_path: Path, text: str | None, said: str
    ) -> None:
        file = tmp_path / "pairs.jsonl"
        if text is not None:
            file.write_text(text)
        with pytest.raises(DataError) as caught:
            read_pairs(file)
        assert said in str(caught.value) and str(file) in str(caught.value)

    @pytest.mark.slow
    def test_pairs_are_what_the_eliminator_sees_and_what_it_should_say(
        self, demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
    ) -> None:
        file = tmp_path / "pairs.jsonl"
        sea = ("evaluate", "--backbone", backbone_file, "--pipeline", "sea-sql", *TRAIN, *LIMIT, "--json")
        trained_on = demo.run(*sea)
        assert trained_on.code == 0, trained_on.err
        requests = len(model.requests)
        made = demo.run("finetune", "pairs", "latest", "--evaluated", "demo", "--output", str(file), "--json")
        assert made.code == 0, made.err
        assert len(model.requests) == requests
        pairs = lines(file)
        assert made.json["pairs"] == len(pairs) == 8 - sum(made.json["left_out"].values()) > 0
        questions = demo.run("query", "SELECT question_id, gold_sql FROM questions", "--json").json["rows"]
        golds = {row["question_id"]: row["gold_sql"].rstrip("; \n") for row in questions}
        for each in pairs:
            preliminary = each["prompt"][0]["content"].rpartition("### SQL 1\n")[2].partition("\n\n")[0]
            expected = preliminary if each["right"] else golds[each["question_id"]]
            assert each["completion"][0]["content"].split() == expected.split()
        assert made.json["right"] == sum(each["right"] for each in pairs)

        evaluated = demo.run(*sea, "--set", f"pipeline.eliminator={backbone_file}")
        assert evaluated.code == 0, evaluated.err
        asked = {prompt for prompt in model.prompts if prompt.startswith("### Instruction")}
        assert {each.prompt[0]["content"] for each in read_pairs(file)} <= asked

        self.no_pair_is_of_an_evaluated_benchmark(demo, trained_on.json["run_id"], tmp_path, len(pairs))

    def no_pair_is_of_an_evaluated_benchmark(
        self, demo: CommandLine, run_id: str, tmp_path: Path, pairs: int
    ) -> None:
        conf = yaml.safe_load((find_conf() / "benchmarks" / "demo.yaml").read_text(encoding="utf-8"))
        split = {**conf, "questions": "train.json", "train": None}
        (tmp_path / "all.yaml").write_text(yaml.safe_dump(split), encoding="utf-8")
        (source,) = demo.home.rglob("train.json")
        few = source.with_name("few.json")
        few.write_text(json.dumps(json.loads(source.read_text(encoding="utf-8"))[:3]), encoding="utf-8")
        (tmp_path / "few.yaml").write_text(yaml.safe_dump({**split, "questions": "few.json"}))
        output = tmp_path / "few.jsonl"
        command = ("finetune", "pairs", run_id, "--output", str(output), "--json", "--evaluated")
        part = demo.run(*command, str(tmp_path / "few.yaml"))
        assert part.code == 0, part.err
        assert part.json["left_out"]["in an evaluated benchmark"] == 3 and part.json["pairs"] == pairs - 3
        none = demo.run(*command, str(tmp_path / "few.yaml"), "--evaluated", str(tmp_path / "all.yaml"))
        assert none.code == 2 and "No training pair" in none.err
        other = demo.run("evaluate", "--pipeline", "zero-shot", "--limit", "1", "--json")
        refused = demo.run("finetune", "pairs", other.json["run_id"], *command[3:], "demo")
        assert refused.code == 2 and "runs of SEA-SQL" in refused.err


@pytest.mark.parametrize(("arguments", "said"), [
    ((), "none.jsonl cannot be read"),
    (("--set", "rnak=3"), 'Did you mean "rank"?'),
    (("--set", "rank=0"), "greater than or equal to 1"),
    (("--set", "learning_rate=fast"), "--set learning_rate: Input should be a valid number"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_words(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    ran = in_process.run("finetune", "train", "--pairs", "none.jsonl", "--output", "out", *arguments)
    ran.assert_refused(said)


def test_an_interrupted_training_does_not_stay_running_in_mlflow(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    made: dict[str, str] = {}
    with (
        pytest.raises(KeyboardInterrupt),
        logged_by_library(Home(tmp_path), "trainings", "out", lambda **ids: made.update(ids)),
    ):
        raise KeyboardInterrupt
    run = MlflowClient(made["tracking_uri"]).get_run(made["mlflow_run"])
    assert (run.info.run_name, run.info.status) == ("out", "FAILED")


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A randomly initialised Llama of 32 dimensions whose tokenizer knows single characters."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny") / "model"
    characters = ["<pad>", "<s>", "</s>", "<unk>", *map(chr, range(32, 127)), "\n"]
    core = Tokenizer(
        models.WordLevel({token: place for place, token in enumerate(characters)}, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=core, **special).save_pretrained(folder)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = LlamaConfig(vocab_size=len(characters), max_position_embeddings=512, **size, **ids)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.mark.slow
class TestTraining:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))

    def command(self, model: Path, pairs: Path, output: Path, *changes: str) -> tuple[str, ...]:
        settings = (f"model={model}", "rank=8", "dropout=0", "batch_size=4", "device_batch_size=4", *changes)
        changed = (part for setting in settings for part in ("--set", setting))
        return "finetune", "train", "--pairs", str(pairs), "--output", str(output), "--json", *changed

    def test_the_adapter_answers_what_it_was_taught_and_a_training_is_resumed(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        from mlflow import MlflowClient
        from peft import AutoPeftModelForCausalLM
        from transformers import AutoTokenizer

        pairs = written(tmp_path / "pairs.jsonl", *(pair(number, "1") for number in range(4)))
        command = self.command(tiny_model, pairs, tmp_path / "out", "epochs=60", "learning_rate=0.01")
        ran = in_process.run(*command)
        assert ran.code == 0, ran.err
        assert (ran.json["steps"], ran.json["pairs"], ran.json["too_long"]) == (60, 4, 0)
        adapter = Path(ran.json["adapter"])
        config = json.loads((adapter / "adapter_config.json").read_text())
        assert {"lm_head", "q_proj", "down_proj"} <= set(config["target_modules"])
        before = (adapter / "adapter_model.safetensors").read_bytes()

        client = MlflowClient(f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}")
        experiment = client.get_experiment_by_name("crosscheck/finetuning")
        assert experiment is not None
        (run,) = client.search_runs([experiment.experiment_id])
        history = client.get_metric_history(run.info.run_id, "loss")
        assert [point.step for point in history] == list(range(1, 61))
        assert history[-1].value < history[0].value / 10
        assert run.data.params["learning_rate"] == "0.01" and run.info.status == "FINISHED"

        tokenizer = AutoTokenizer.from_pretrained(adapter)
        prompt = pair(2).prompt[0]["content"]
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_tensors="pt"
        )["input_ids"]
        assert tokenizer.decode(ids[0]) == prompt
        model = AutoPeftModelForCausalLM.from_pretrained(adapter)
        answer = model.generate(input_ids=ids, do_sample=False, max_new_tokens=5)[0][ids.shape[1] :]
        assert tokenizer.decode(answer) == "1</s>"

        shutil.rmtree(adapter)
        (last,) = (tmp_path / "out" / "checkpoints").glob("*/checkpoint-60")
        (last / "trainer_state.json").write_text('{"epoch": 60')  # cut off by a kill
        again = in_process.run(*command)
        assert again.code == 0 and again.json["loss"] == pytest.approx(ran.json["loss"])
        resumed = client.search_runs([experiment.experiment_id])[0]
        steps = [point.step for point in client.get_metric_history(resumed.info.run_id, "loss")]
        assert steps == list(range(51, 61))
        assert (adapter / "adapter_model.safetensors").read_bytes() == before

    def test_long_pairs_are_left_out_whole_and_a_missing_model_is_named(
        self, tiny_model: Path, tmp_path: Path
    ) -> None:
        pairs = written(tmp_path / "pairs.jsonl", pair(1), pair(2, "SELECT " + "1" * 99))
        ran = in_process.run(*self.command(tiny_model, pairs, tmp_path / "a", "max_tokens=120"))
        assert ran.code == 0, ran.err
        assert (ran.json["pairs"], ran.json["too_long"]) == (1, 1)
        short = in_process.run(*self.command(tiny_model, pairs, tmp_path / "b", "max_tokens=16"))
        assert short.code == 2 and "more than 16 tokens" in short.err
        none = in_process.run(*self.command(tmp_path / "none", pairs, tmp_path / "c"))
        assert none.code == 2 and "cannot be opened" in none.err
