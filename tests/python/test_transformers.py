"""attn_implementation="rapt" beside "sdpa" and "eager", on small models made from their configurations."""

import sys

import pytest
import torch
import transformers as hf

import rapt.transformers

rapt.transformers.register()
SIZES = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
IDS = torch.randint(3, 90, (2, 13), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones(2, 13, dtype=torch.long)
PADDED[0, :4] = 0  # on the left


def llama(attention):
    return hf.AutoModelForCausalLM.from_config(
        hf.LlamaConfig(**SIZES, num_key_value_heads=2, pad_token_id=0), attn_implementation=attention
    )


def bert(attention):
    config = hf.BertConfig(**SIZES, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    return hf.AutoModel.from_config(config, attn_implementation=attention)


def t5(attention):
    config = hf.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0
    )
    return hf.T5ForConditionalGeneration._from_config(config, attn_implementation=attention)


def vit(attention):
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    return hf.AutoModel.from_config(hf.ViTConfig(**sizes, image_size=32, patch_size=8), attn_implementation=attention)


def gemma2(attention):  # softcaps and windows
    config = hf.Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=8, sliding_window=5, pad_token_id=0)
    return hf.AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def whisper(attention):  # an encoder over sound, a decoder with cross-attention
    config = hf.WhisperConfig(
        vocab_size=100, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=20, max_target_positions=30, dropout=0.0,
        attention_dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return hf.WhisperForConditionalGeneration._from_config(config, attn_implementation=attention)


def gpt_oss(attention):  # attention sinks
    config = hf.GptOssConfig(
        **SIZES, num_key_value_heads=2, head_dim=8, sliding_window=5, num_local_experts=2, num_experts_per_tok=1, pad_token_id=0
    )
    return hf.AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def pair(make, other="sdpa"):
    torch.manual_seed(1)
    theirs, mine = make(other).eval(), make("rapt").eval()
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine


IMAGE = torch.randn(2, 3, 32, 32)
SOUND = torch.randn(2, 8, 40, generator=torch.Generator().manual_seed(3))
CASES = {
    "llama": (llama, "sdpa", lambda m: m(IDS).logits),
    "llama padded": (llama, "sdpa", lambda m: m(IDS, attention_mask=PADDED).logits[PADDED.bool()]),
    "bert padded": (bert, "sdpa", lambda m: m(IDS, attention_mask=PADDED).last_hidden_state[PADDED.bool()]),
    "t5": (t5, "sdpa", lambda m: m(input_ids=IDS, attention_mask=PADDED, decoder_input_ids=IDS[:, :7]).logits),
    "vit": (vit, "sdpa", lambda m: m(IMAGE).last_hidden_state),
    "gemma2": (gemma2, "eager", lambda m: m(IDS).logits),
    "whisper": (whisper, "sdpa", lambda m: m(input_features=SOUND, decoder_input_ids=IDS[:, :7]).logits),
    "gpt_oss": (gpt_oss, "eager", lambda m: m(IDS).logits),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_and_gradients(name):
    make, other, call = CASES[name]
    theirs, mine = pair(make, other)
    expected, got = call(theirs), call(mine)
    torch.testing.assert_close(got, expected, atol=5e-6, rtol=1e-4)
    expected.square().mean().backward()
    got.square().mean().backward()
    for (key, a), b in zip(mine.named_parameters(), theirs.parameters()):
        if b.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, atol=1e-6, rtol=1e-3, msg=key)


@pytest.mark.parametrize("make", [llama, t5])
def test_generation_with_a_cache(make):
    theirs, mine = pair(make)
    options = dict(attention_mask=PADDED, max_new_tokens=12, do_sample=False)
    assert torch.equal(mine.generate(IDS, **options), theirs.generate(IDS, **options))
    slow = mine.generate(IDS, use_cache=False, **options)
    assert torch.equal(mine.generate(IDS, **options), slow)


@pytest.mark.parametrize(
    "make, other, options",
    [(llama, "sdpa", dict(cache_implementation="static")), (llama, "sdpa", dict(num_beams=3)), (gemma2, "eager", dict(num_beams=3))],
    ids=["static cache", "beams", "beams of windows"],
)
def test_generation_with_other_caches_and_beams(make, other, options):
    theirs, mine = pair(make, other)
    options = dict(attention_mask=PADDED, max_new_tokens=8, do_sample=False, disable_compile=True, **options)
    assert torch.equal(mine.generate(IDS, **options), theirs.generate(IDS, **options))


@pytest.mark.parametrize("beams", [1, 3])
def test_generation_with_cross_attention(beams):
    theirs, mine = pair(whisper)
    options = dict(input_features=SOUND, max_new_tokens=8, do_sample=False, num_beams=beams)
    assert torch.equal(mine.generate(**options), theirs.generate(**options))


def test_attention_maps():
    eager, mine = pair(llama, "eager")
    expected = eager(IDS, output_attentions=True).attentions
    got = mine(IDS, output_attentions=True).attentions
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)
    with rapt.transformers.record(layers=[1]) as calls:
        mine(IDS)
    assert len(calls) == 1 and calls.layer(0) == 1 and calls.shape(0) == (2, 4, 13, 13)
    torch.testing.assert_close(calls.weights(0, batch=1, head=3, rows=slice(2, 6)), expected[1][1, 3, 2:6], atol=1e-6, rtol=1e-4)


def test_layers_without_numbers_are_counted():
    torch.manual_seed(0)
    model = vit("rapt").eval()
    pixels = torch.randn(2, 3, 32, 32)
    with rapt.transformers.record() as everything:
        model(pixels)
    with rapt.transformers.record(layers=[1]) as calls:
        model(pixels)
    assert [everything.layer(n) for n in range(len(everything))] == [0, 1]
    assert len(calls) == 1 and calls.layer(0) == 1
    torch.testing.assert_close(calls.weights(0), everything.weights(1))


def test_dropout_is_refused():
    with pytest.raises(ValueError, match="dropout: expected 0"):
        x = torch.zeros(1, 1, 2, 4)
        rapt.transformers.attention(torch.nn.Module(), x, x, x, None, dropout=0.1)


def test_explore_knows_the_parts_of_a_model():
    model = t5("rapt").eval()
    inputs = dict(input_ids=IDS[:1, :9], decoder_input_ids=IDS[:1, :5])
    explorer = rapt.explore(model, inputs)
    assert [layer.group for layer in explorer.layers] == ["encoder"] * 2 + ["decoder", "cross"] * 2
    assert explorer.layers[3].name.startswith("decoder.block.0") and explorer.layers[3].keys == 9
    maps = model(**inputs, output_attentions=True).cross_attentions
    torch.testing.assert_close(torch.tensor(explorer.rows(5, 3, 1, 4)).float(), maps[1][0, 3, 1:4], atol=1e-6, rtol=1e-5)


def test_explore_long_texts():
    """Maps of 8,192 tokens are computed when they are asked for, row by row."""
    torch.manual_seed(0)
    sizes = dict(vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=8192)
    make = lambda name: hf.AutoModel.from_config(hf.LlamaConfig(**sizes, pad_token_id=0), attn_implementation=name).eval()
    mine, eager = make("rapt"), make("eager")
    eager.load_state_dict(mine.state_dict())
    ids = torch.randint(1, 50, (1, 8192))
    with torch.no_grad():
        explorer = rapt.explore(mine, ids, tokens=[str(n) for n in ids[0].tolist()])
        expected = eager(ids[:, :40], output_attentions=True).attentions[0][0]  # which later tokens do not change
    assert len(explorer) == 1 and explorer.layers[0].keys == 8192
    for head in range(2):
        rows = torch.tensor(explorer.rows(0, head, 0, 40)).float()
        torch.testing.assert_close(rows[:, :40], expected[head], atol=1e-5, rtol=1e-4)
        assert rows[:, 40:].abs().max() == 0
        last = torch.tensor(explorer.rows(0, head, 8190, 8192)).double()
        torch.testing.assert_close(last.sum(1), torch.ones(2, dtype=torch.float64), atol=1e-4, rtol=0)
    assert '<iframe src="http://127.0.0.1:' in explorer._repr_html_()


def test_older_versions_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers.masking_utils", None)
    with pytest.raises(ImportError, match=f"register: expected Transformers 4.53 or newer, got {hf.__version__}"):
        rapt.transformers.register("another")


def test_attention_maps_have_no_gradient():
    """As the documentation says; what the model computes has one."""
    found = llama("rapt")(IDS, output_attentions=True)
    assert found.logits.requires_grad and not found.attentions[0].requires_grad
