"""A model of Transformers with Rapt's attention, and maps of its layers computed when they are asked for."""

import torch
import transformers

import rapt.transformers

rapt.transformers.register()
config = transformers.LlamaConfig(
    vocab_size=100, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2
)
model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="rapt").eval()
ids = torch.randint(100, (1, 2048))
with torch.no_grad(), rapt.transformers.record(layers=[1]) as calls:
    model(ids)
rows = calls.weights(0, batch=0, head=3, rows=slice(2040, 2048))
print("layer", calls.layer(0), "of", calls.shape(0), "→ eight rows of head 3:", tuple(rows.shape))
